package replace

import (
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/logcluster/apply"
	"heartwood.dev/heartwood/controllers/logcluster/maystop"
	"heartwood.dev/heartwood/controllers/logcluster/memory"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"

	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// keepAfter is the time after which an exited broker that is still in an ISR starts again with its
// old volume. Usually other brokers remove an exited broker from their ISRs within seconds.
const keepAfter = time.Minute

// Replacer replaces brokers' volumes.
type Replacer struct {
	client.Client
	Live    client.Reader // reader of the API server, without a cache
	Events  conditions.Recorder
	MayStop *maystop.Asker
}

// Next executes the next step of the replacement of volumes, if the decision about restarts lets a
// volume be replaced now. Otherwise handled is false. again is the time after which the next step
// is due.
func (r *Replacer) Next(ctx context.Context, s *facts.Facts, m *memory.Memory,
	applied facts.Applied, state rollout.State, taken outcome.Step) (next outcome.Step,
	again time.Duration, handled bool, err error) {
	volumes := s.VolumesToReplace(applied)
	decision, why := rollout.NextVolume(state, volumes, taken.Decision)
	if len(volumes.Replace) == 0 || decision == taken.Decision &&
		(decision.Phase != rollout.Waiting || decision.Broker < 0 || decision.Outdated > 0) {
		return taken, 0, false, nil
	}
	taken = outcome.Step{Decision: decision}
	remaining := fmt.Sprintf("Volumes to be replaced by those of StorageClass %s: %d.",
		*s.Cluster.Spec.Storage.ClassName, len(volumes.Replace))
	if spec := s.Cluster.Spec.Rollout; decision.Phase == rollout.Restart && spec != nil &&
		state.Brokers[decision.Broker].Up {
		// Changing the StorageClass is the approval, but the replacement waits for the window.
		if inside, left := spec.Window.Contains(time.Now()); !inside {
			taken.Phase, taken.Hold = rollout.Held, rollout.OutsideWindow
			taken.Held = outcome.HeldBy(s, taken.Hold)
			taken.Volume = remaining
			return taken, outcome.HeldRequeue(left), true, nil
		}
	}
	if decision.Phase == rollout.Restart {
		taken.Volume = fmt.Sprintf("Broker %d is stopping, and its volume is replaced. %s",
			decision.Broker, remaining)
		if taken.Refusal, err = r.replaceVolume(ctx, s, m, applied,
			decision.Broker, state); err != nil {
			taken.Refusal = fmt.Sprintf("The operator failed to replace the volume of broker %d: %v.",
				decision.Broker, err)
		}
		return taken, outcome.Interval, true, err
	}
	taken.Volume = remaining + " " + describeWait(s, decision, why)
	return taken, outcome.Interval, true, nil
}

// describeWait describes what the next replacement of a volume waits for.
func describeWait(s *facts.Facts, d rollout.Decision, why rollout.Why) string {
	switch why {
	case rollout.NotInSync:
		return fmt.Sprintf("Broker %d is next, when all replicas of all partitions are in sync: those "+
			"of partition %s are not.", d.Broker, d.Partition)
	case rollout.OnlyReplica:
		return fmt.Sprintf("Broker %d keeps its volume, which has the only replica of partition %s: "+
			"raise spec.replicas of the Topic, or move the partition.", d.Broker, d.Partition)
	case rollout.RetainedRecords:
		return fmt.Sprintf("Broker %d keeps its volume, which has records of partition %s, whose Topic "+
			"was deleted with reclaimPolicy Retain: create the Topic again, or give up the records: %s",
			d.Broker, d.Partition, v1alpha1.RemoveRetainedCommand(s.Cluster,
				d.Partition[:max(0, strings.LastIndexByte(d.Partition, '/'))]))
	case rollout.TooFewInSync:
		return fmt.Sprintf("Broker %d is next: without it, partition %s has too few in-sync replicas.",
			d.Broker, d.Partition)
	}
	if pod := s.Pod(d.Broker); pod != nil && facts.PodReady(pod) {
		return fmt.Sprintf("Broker %d is ready; the next broker follows when clients know its "+
			"address.", d.Broker)
	}
	return fmt.Sprintf("Broker %d is not ready.", d.Broker)
}

// replaceVolume begins the replacement of a broker's volume: it deletes the broker's pod, which has
// a finalizer. The finalizer prevents the broker from starting again with the old volume. Continue
// executes the remaining steps. replaceVolume returns the reason for a refusal, or "".
func (r *Replacer) replaceVolume(ctx context.Context, s *facts.Facts, m *memory.Memory,
	applied facts.Applied, id int32, state rollout.State) (refusal string, err error) {
	class := *s.Cluster.Spec.Storage.ClassName
	_, complete, err := sets.Live(ctx, r.Live, s.Cluster.Namespace, s.Cluster.Name)
	if err != nil {
		return "", err
	} else if !complete {
		return fmt.Sprintf("Broker %d keeps its volume: a PartitionSet is missing or has an invalid "+
			"entry, so not all partitions are known.", id), nil
	}
	if missing, err := r.classMissing(ctx, class); err != nil {
		return "", err
	} else if missing {
		return fmt.Sprintf("Broker %d keeps its volume: StorageClass %s does not exist. Create it, "+
			"or correct spec.storage.className.", id, class), nil
	}
	for _, claim := range applied.Volumes.Claims {
		if claim.Broker == id && claim.Capacity.Cmp(applied.Volumes.Size) > 0 {
			return fmt.Sprintf("Broker %d keeps its volume: that of claim %s has %s, and the next one "+
				"would have %s. Raise spec.storage.size.", id, claim.Name,
				claim.Capacity.String(), applied.Volumes.Size.String()), nil
		}
	}
	cached := s.Pod(id)
	if cached == nil || cached.DeletionTimestamp != nil {
		return "", nil // the cache is outdated
	}
	if broker := state.Brokers[id]; broker.Ready || broker.Up {
		if refusal = r.MayStop.Ask(ctx, s, id); refusal != "" {
			return refusal, nil
		}
	}
	pod := &corev1.Pod{} // needed because the cached pod is not complete
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), pod); err != nil ||
		pod.UID != cached.UID {
		return "", client.IgnoreNotFound(err)
	}
	before := pod.DeepCopy()
	if controllerutil.AddFinalizer(pod, v1alpha1.FinalizerReplaceVolume) {
		if err := r.Patch(ctx, pod, client.MergeFromWithOptions(before,
			client.MergeFromWithOptimisticLock{})); err != nil {
			return "", fmt.Errorf("add finalizer to pod %s: %w", pod.Name, err)
		}
	}
	if err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); apply.IgnoreStale(err) != nil {
		return "", fmt.Errorf("stop broker %d: %w", id, err)
	}
	m.Restarted = pod.UID
	r.Events.Normal(s.Cluster, v1alpha1.EventRestarting, "ReplaceVolume",
		"Restarting broker %d: its volume is replaced by one of StorageClass %s.", id, class)
	return "", nil
}

// classMissing reports whether a StorageClass does not exist. It returns false if the operator may
// not read StorageClasses.
func (r *Replacer) classMissing(ctx context.Context, name string) (bool, error) {
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &storagev1.StorageClass{})
	if err == nil || apierrors.IsForbidden(err) {
		return false, nil
	}
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// Continue executes the next step for each broker that is stopping because its volume is being
// replaced. While a LogCluster is paused, brokers start again with their old volumes. again is the
// time after which the next step is due; 0 if there is none.
func (r *Replacer) Continue(ctx context.Context, s *facts.Facts,
	m *memory.Memory) (again time.Duration, err error) {
	forgetStopped(s, m)
	for i := range s.Pods {
		if !controllerutil.ContainsFinalizer(&s.Pods[i], v1alpha1.FinalizerReplaceVolume) {
			continue
		}
		pod := &corev1.Pod{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(&s.Pods[i]), pod); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return 0, fmt.Errorf("get pod %s: %w", s.Pods[i].Name, err)
		}
		waits, err := r.continueReplacement(ctx, s, m, pod)
		if err != nil {
			return 0, err
		}
		if waits {
			again = apply.ReplaceInterval
		}
	}
	return again, nil
}

// continueReplacement executes the next step of the replacement of a broker's volume. It reports
// whether the replacement still waits.
func (r *Replacer) continueReplacement(ctx context.Context, s *facts.Facts, m *memory.Memory,
	pod *corev1.Pod) (waits bool, err error) {
	_, id, ok := v1alpha1.ParseBrokerLeaseName(pod.Name)
	if !ok || !controllerutil.ContainsFinalizer(pod, v1alpha1.FinalizerReplaceVolume) {
		return false, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	name := types.NamespacedName{Namespace: pod.Namespace,
		Name: v1alpha1.VolumeClaimName(s.Cluster.Name, id)}
	if err := r.Live.Get(ctx, name, claim); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get claim %s: %w", name.Name, err)
	}
	class := s.Cluster.Spec.Storage.ClassName
	state := rollout.Stopping{
		Wanted: claim.UID != "" && claim.DeletionTimestamp == nil && class != nil &&
			(claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != *class) &&
			pod.DeletionTimestamp != nil && !s.Cluster.Paused(),
		Stopped: stopped(pod), InISR: s.InISR(id),
		Forced: pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0,
	}
	state.Expired = stoppedFor(m, pod, state.Stopped, time.Now()) >= keepAfter
	action := state.Next()
	if action == rollout.Discard {
		// The cache can be older than the broker's exit.
		if state.InISR, err = r.mayBeInISR(ctx, s.Cluster, id); err != nil {
			return false, err
		}
		action = state.Next()
	}
	switch action {
	case rollout.Wait:
		return true, nil
	case rollout.Discard:
		if err := r.discard(ctx, pod, claim); err != nil {
			return false, err
		}
	case rollout.Release:
		if state.Wanted {
			r.Events.Warning(s.Cluster, v1alpha1.EventVolumeKept, "ReplaceVolume",
				"Broker %d starts again with its volume: when it stopped, it was still in the ISR of a "+
					"partition, or its pod was deleted by force.", id)
		}
	}
	return false, r.release(ctx, pod)
}

// discard deletes a claim. Before that, it writes into the broker's Lease that the broker may
// continue with another volume, so that an operator that is restarted between the two steps can
// continue.
func (r *Replacer) discard(ctx context.Context, pod *corev1.Pod,
	claim *corev1.PersistentVolumeClaim) error {
	lease := &coordinationv1.Lease{} // same name as the pod
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), lease)
	if err == nil {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationVolumeConsent,
			v1alpha1.VolumeConsent{Claim: string(claim.UID)}.String())
		err = r.Update(ctx, lease)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("permit another volume in lease %s: %w", pod.Name, err)
	}
	if err := r.Delete(ctx, claim,
		client.Preconditions{UID: &claim.UID}); apply.IgnoreStale(err) != nil {
		return fmt.Errorf("delete claim %s: %w", claim.Name, err)
	}
	return nil
}

// release removes the finalizer from a pod, which lets the broker start again.
func (r *Replacer) release(ctx context.Context, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	if !controllerutil.RemoveFinalizer(pod, v1alpha1.FinalizerReplaceVolume) {
		return nil
	}
	err := r.Patch(ctx, pod,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer from pod %s: %w", pod.Name, err)
	}
	return nil
}

// ReleaseAll removes the finalizers from the pods of a LogCluster that is being deleted.
func (r *Replacer) ReleaseAll(ctx context.Context, cluster types.NamespacedName) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		if !controllerutil.ContainsFinalizer(&pods.Items[i], v1alpha1.FinalizerReplaceVolume) {
			continue
		}
		pod := &corev1.Pod{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(&pods.Items[i]), pod); err == nil {
			err = r.release(ctx, pod)
			if err != nil {
				return err
			}
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get pod %s: %w", pods.Items[i].Name, err)
		}
	}
	return nil
}

// stopped reports whether all containers of a pod have exited.
func stopped(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	runs := func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil }
	all := pod.Status.ContainerStatuses
	return pod.DeletionTimestamp != nil &&
		(pod.Spec.NodeName == "" || len(all) > 0 && !slices.ContainsFunc(all, runs))
}

// mayBeInISR reports whether a broker is in the ISR of any partition. It reads the PartitionSets
// from the API server itself, and returns true if not all partitions are known.
func (r *Replacer) mayBeInISR(ctx context.Context, cluster *v1alpha1.LogCluster,
	id int32) (bool, error) {
	all, complete, err := sets.Live(ctx, r.Live, cluster.Namespace, cluster.Name)
	return err != nil || !complete || facts.InISR(all, id), err
}

// stoppedFor returns the time since the operator first observed that a pod has stopped; 0 if the
// pod has not stopped.
func stoppedFor(m *memory.Memory, pod *corev1.Pod, isStopped bool, now time.Time) time.Duration {
	if !isStopped {
		delete(m.Stopped, pod.UID)
		return 0
	}
	if m.Stopped == nil {
		m.Stopped = map[types.UID]time.Time{}
	}
	if _, ok := m.Stopped[pod.UID]; !ok {
		m.Stopped[pod.UID] = now
	}
	return now.Sub(m.Stopped[pod.UID])
}

// forgetStopped removes the times of pods that no longer exist.
func forgetStopped(s *facts.Facts, m *memory.Memory) {
	maps.DeleteFunc(m.Stopped, func(uid types.UID, _ time.Time) bool {
		return !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.UID == uid })
	})
}
