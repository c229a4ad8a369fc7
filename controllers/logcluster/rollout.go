package logcluster

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// defaultSettleTime is the time for which a restarted broker must be ready before the next broker
// is restarted. It is about the time for which DNS caches keep the address of the broker's previous
// pod.
const defaultSettleTime = 30 * time.Second

// ofChangingCluster maps a PartitionSet to its LogCluster, but only while a change of the set may
// require an apply: while brokers are being drained, or while a rolling update waits for in-sync
// replicas.
func (r *Reconciler) ofChangingCluster(ctx context.Context,
	set client.Object) []reconcile.Request {
	found := watch.ClusterOf(ctx, set)
	cluster, brokers := &v1alpha1.LogCluster{}, &appsv1.StatefulSet{}
	key := types.NamespacedName{Namespace: set.GetNamespace(),
		Name: render.BrokersName(found[0].Name)}
	if r.Get(ctx, found[0].NamespacedName, cluster) != nil || r.Get(ctx, key, brokers) != nil {
		return nil // not created yet; its creation triggers a reconciliation
	}
	drains := brokers.Spec.Replicas != nil && *brokers.Spec.Replicas > cluster.Spec.Brokers
	if !drains && brokers.Status.UpdateRevision == brokers.Status.CurrentRevision {
		return nil
	}
	return found
}

// pace returns the settings for package render, which include the number of running brokers and
// the number of pods that keep their present template. requeueAfter is the time after which a
// rolling update may continue because a broker has settled; 0 if the update waits for an event.
func (r *Reconciler) pace(ctx context.Context,
	cluster *v1alpha1.LogCluster) (settings render.Settings, requeueAfter time.Duration,
	err error) {
	settings = r.Settings
	scope, err := gather(ctx, r, r.Sets, cluster)
	if err != nil {
		return settings, 0, err
	}
	settings.Brokers, settings.PartitionSets = scope.drain().brokers, scope.sets.Count
	settings.ScramShards = scope.scramShards
	state := scope.rolloutState(settings.Brokers)
	now := time.Now()
	readySince := r.ready.observe(client.ObjectKeyFromObject(cluster), scope.pods, now)
	for id, since := range readySince {
		if left := r.SettleTime - now.Sub(since); id < settings.Brokers && left > 0 {
			state.Brokers[id].Settling = true
			requeueAfter = max(requeueAfter, left)
		}
	}
	settings.Held = rollout.Held(state)
	if _, waits := rollout.Waiting(state); !waits {
		requeueAfter = 0
	}
	return settings, requeueAfter, nil
}

// rolloutState returns the state of a rolling update of the given number of brokers. If the
// StatefulSet does not exist, all pods are held: there is only one template, from which they will
// be created.
func (s *scope) rolloutState(brokers int32) rollout.State {
	_, underReplicated := s.countPartitions()
	status := s.brokers.Status
	state := rollout.State{
		Brokers:         make([]rollout.Broker, brokers),
		UnderReplicated: underReplicated, Held: brokers,
		Observed: s.brokers.UID != "" && status.ObservedGeneration == s.brokers.Generation &&
			status.UpdateRevision != "",
	}
	if rolling := s.brokers.Spec.UpdateStrategy.RollingUpdate; rolling != nil &&
		rolling.Partition != nil {
		state.Held = *rolling.Partition
	}
	for i := range s.pods {
		pod := &s.pods[i]
		// A broker's pod and its Lease have the same name.
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pod.Name)
		if !ok || id >= brokers {
			continue
		}
		state.Brokers[id] = rollout.Broker{
			Updated: pod.Labels[appsv1.ControllerRevisionHashLabelKey] == status.UpdateRevision,
			Ready:   podReady(pod),
		}
	}
	if status.UpdateRevision == status.CurrentRevision {
		// no update is in progress, so a missing pod is created from the latest template
		for id := range state.Brokers {
			state.Brokers[id].Updated = true
		}
	}
	return state
}

// readiness stores the time at which each broker's pod became ready, by the operator's clock. The
// times in a pod's conditions are by its node's clock; a clock that is minutes ahead would delay
// every rolling update by these minutes. After a restart of the operator the stored times are lost,
// and a rolling update waits for SettleTime once more.
type readiness struct {
	pods keyed.Map[map[int32]readyPod] // keys: LogCluster, then broker id
}

// readyPod identifies a pod and the moment at which it became ready.
type readyPod struct {
	uid types.UID
	// time of becoming ready by the node's clock; another value means that the pod became ready
	// again
	at    time.Time
	since time.Time // when the operator first observed at, by the operator's clock
}

// observe updates the stored state of a LogCluster's pods at the time now. It returns, for each
// broker whose pod is ready, the time at which the pod became ready.
func (r *readiness) observe(cluster types.NamespacedName, pods []corev1.Pod,
	now time.Time) map[int32]time.Time {
	before, _ := r.pods.Get(cluster)
	current, since := map[int32]readyPod{}, map[int32]time.Time{}
	for i := range pods {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pods[i].Name)
		at, ready := readyAt(&pods[i])
		if !ok || !ready {
			continue
		}
		pod := before[id]
		if pod.uid != pods[i].UID || !pod.at.Equal(at) {
			pod = readyPod{uid: pods[i].UID, at: at, since: now}
		}
		current[id], since[id] = pod, pod.since
	}
	r.pods.Set(cluster, current)
	return since
}

func (r *readiness) forget(cluster types.NamespacedName) { r.pods.Delete(cluster) }

// readyAt returns the time at which a pod became ready, by its node's clock. The result ready is
// false if the pod is not ready.
func readyAt(pod *corev1.Pod) (at time.Time, ready bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// podReady reports whether a pod is ready and not being deleted.
func podReady(pod *corev1.Pod) bool {
	_, ready := readyAt(pod)
	return ready && pod.DeletionTimestamp == nil
}
