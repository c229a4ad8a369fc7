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

// defaultSettleTime is how long a restarted broker must be ready before the next one is restarted:
// about as long as DNS and its caches keep the address of its previous pod.
const defaultSettleTime = 30 * time.Second

// ofChangingCluster maps a Partition to its LogCluster while the LogCluster may be waiting for its
// partitions: brokers are being drained, or pods are waiting for a new template. At other times a
// change of a Partition requires no apply.
func (r *Reconciler) ofChangingCluster(ctx context.Context,
	partition client.Object) []reconcile.Request {
	found := watch.ClusterOf(ctx, partition)
	cluster, brokers := &v1alpha1.LogCluster{}, &appsv1.StatefulSet{}
	key := types.NamespacedName{Namespace: partition.GetNamespace(),
		Name: render.BrokersName(found[0].Name)}
	if r.Get(ctx, found[0].NamespacedName, cluster) != nil || r.Get(ctx, key, brokers) != nil {
		return nil // the event of the LogCluster follows
	}
	drains := brokers.Spec.Replicas != nil && *brokers.Spec.Replicas > cluster.Spec.Brokers
	if !drains && brokers.Status.UpdateRevision == brokers.Status.CurrentRevision {
		return nil
	}
	return found
}

// pace returns the settings to render with: how many brokers run, and which of them keep their
// template for now. requeueAfter is when a rolling update may continue because a broker has
// settled; 0 if it waits for an event.
func (r *Reconciler) pace(ctx context.Context,
	cluster *v1alpha1.LogCluster) (settings render.Settings, requeueAfter time.Duration,
	err error) {
	settings = r.Settings
	scope, err := gather(ctx, r, cluster)
	if err != nil {
		return settings, 0, err
	}
	settings.Brokers = scope.drain().brokers
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

// rolloutState returns the state of a rolling update over a number of brokers. Without a
// StatefulSet there is nothing to update: all pods are held and are created from the only template.
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
		// A pod has the name of its Lease.
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
		for id := range state.Brokers { // a missing pod is created from the only template
			state.Brokers[id].Updated = true
		}
	}
	return state
}

// readiness records the time at which each broker's pod became ready, by the operator's clock. A
// pod's conditions carry times of its node's clock, and a clock that is minutes ahead would delay
// every rolling update by as much. A restart of the operator loses the times; a rolling update then
// waits for SettleTime once more.
type readiness struct {
	pods keyed.Map[map[int32]readyPod] // by LogCluster, then by broker
}

// readyPod is a pod at the time it became ready.
type readyPod struct {
	uid   types.UID
	at    time.Time // by the node's clock; used only to detect another transition
	since time.Time // when it was observed, by our clock
}

// observe records a LogCluster's pods at the time now and returns, for each ready pod, the time at
// which it became ready.
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

// readyAt returns when a ready pod became ready, by its node's clock.
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
