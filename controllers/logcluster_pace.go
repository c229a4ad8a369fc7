package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// whileBusy finds the LogCluster of a Partition while something goes on that may wait for it:
// brokers that are to go run still, or pods wait for a new template. At other times a Partition is
// no reason to apply anything.
func (r *logClusterReconciler) whileBusy(ctx context.Context,
	partition client.Object) []reconcile.Request {
	found := clusterOf(ctx, partition)
	cluster, brokers := &v1alpha1.LogCluster{}, &appsv1.StatefulSet{}
	key := types.NamespacedName{Namespace: partition.GetNamespace(),
		Name: render.BrokersName(found[0].Name)}
	if r.Get(ctx, found[0].NamespacedName, cluster) != nil || r.Get(ctx, key, brokers) != nil {
		return nil // its own event comes
	}
	drains := brokers.Spec.Replicas != nil && *brokers.Spec.Replicas > cluster.Spec.Brokers
	if !drains && brokers.Status.UpdateRevision == brokers.Status.CurrentRevision {
		return nil
	}
	return found
}

// pace returns the settings to render with: how many brokers run now, and which of them keep their
// template for now; and when to look again, if a rollout waits for that moment (0: for something
// else).
func (r *logClusterReconciler) pace(ctx context.Context,
	cluster *v1alpha1.LogCluster) (settings render.Settings, again time.Duration, err error) {
	settings = r.settings
	topics, partitions := &v1alpha1.TopicList{}, &v1alpha1.PartitionList{}
	// nothing is written into them
	of := []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingFields{byCluster: cluster.Name}, client.UnsafeDisableDeepCopy}
	if err := r.List(ctx, topics, of...); err != nil {
		return settings, 0, fmt.Errorf("list topics: %w", err)
	}
	if err := r.List(ctx, partitions, of...); err != nil {
		return settings, 0, fmt.Errorf("list partitions: %w", err)
	}
	settings.Brokers = drain(cluster, topics.Items, partitions.Items).brokers
	scope := logClusterScope{cluster: cluster, brokers: &appsv1.StatefulSet{}, topics: topics.Items,
		partitions: partitions.Items}
	key := types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}
	if err := r.Get(ctx, key, scope.brokers); client.IgnoreNotFound(err) != nil {
		return settings, 0, fmt.Errorf("get the brokers: %w", err)
	}
	pods := &corev1.PodList{}
	ours := client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}
	if err := r.List(ctx, pods, client.InNamespace(cluster.Namespace), ours); err != nil {
		return settings, 0, fmt.Errorf("list the brokers' pods: %w", err)
	}
	state := scope.rollout(settings.Brokers, pods.Items)
	now := time.Now()
	for id, since := range r.settling.look(client.ObjectKeyFromObject(cluster), pods.Items, now) {
		if left := r.settledAfter - now.Sub(since); id < settings.Brokers && left > 0 {
			state.Brokers[id].New = true
			again = max(again, left)
		}
	}
	settings.Held = rollout.Partition(state)
	if _, waits := rollout.Waiting(state); !waits {
		again = 0
	}
	return settings, again, nil
}

// rollout is how the pods are, for so many brokers. Before there is a StatefulSet there is nothing
// to roll: all are held, and made of the only template there is.
func (s *logClusterScope) rollout(brokers int32, pods []corev1.Pod) rollout.State {
	_, under := s.count()
	state := rollout.State{
		Brokers: make([]rollout.Broker, brokers), UnderReplicated: under, Partition: brokers,
		Settled: s.brokers.UID != "" &&
			s.brokers.Status.ObservedGeneration == s.brokers.Generation &&
			s.brokers.Status.UpdateRevision != "",
	}
	if rolling := s.brokers.Spec.UpdateStrategy.RollingUpdate; rolling != nil &&
		rolling.Partition != nil {
		state.Partition = *rolling.Partition
	}
	for i := range pods {
		// pods and Leases have the same names
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pods[i].Name)
		if !ok || id >= brokers {
			continue
		}
		state.Brokers[id] = rollout.Broker{
			Updated: pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] == s.brokers.Status.UpdateRevision,
			Ready:   podReady(&pods[i]),
		}
	}
	if s.brokers.Status.UpdateRevision == s.brokers.Status.CurrentRevision {
		for id := range state.Brokers { // one template: a pod that is not there comes back with it
			state.Brokers[id].Updated = true
		}
	}
	return state
}

// settling remembers, by LogCluster and broker, since when each pod is ready. It is by our clock: a
// pod's conditions have times of its node's clock, and one that is ahead by some minutes would hold
// up every rollout for as long. What it knows is lost with the operator, at the price of waiting
// once more.
type settling map[types.NamespacedName]map[int32]readyPod

// readyPod is a pod as it became ready.
type readyPod struct {
	uid   types.UID
	at    time.Time // by the node's clock: another one is another time, and says no more
	since time.Time // when we saw it, by ours
}

// look takes in the pods of a cluster at the time now, and returns since when those are ready that
// are.
func (s settling) look(cluster types.NamespacedName, pods []corev1.Pod,
	now time.Time) map[int32]time.Time {
	known, since := map[int32]readyPod{}, map[int32]time.Time{}
	for i := range pods {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pods[i].Name)
		at, ready := readyAt(&pods[i])
		if !ok || !ready {
			continue
		}
		of := s[cluster][id]
		if of.uid != pods[i].UID || !of.at.Equal(at) {
			of = readyPod{uid: pods[i].UID, at: at, since: now}
		}
		known[id], since[id] = of, of.since
	}
	s[cluster] = known
	return since
}

// readyAt is when a pod that is ready became so, by its node's clock.
func readyAt(pod *corev1.Pod) (at time.Time, ready bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// podReady tells whether a pod is ready and stays.
func podReady(pod *corev1.Pod) bool {
	_, ready := readyAt(pod)
	return ready && pod.DeletionTimestamp == nil
}
