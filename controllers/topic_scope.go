package controllers

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// topicScope is all that one reconciliation of a Topic looks at, and what it found out.
type topicScope struct {
	topic    *v1alpha1.Topic
	cluster  *v1alpha1.LogCluster // nil: there is none
	sameName []v1alpha1.Topic     // the others of the cluster that claim the name
	// partitions are the topic's own, by index; strangers have names that the topic needs.
	partitions map[int32]*v1alpha1.Partition
	strangers  []*v1alpha1.Partition
	// replicas that each broker of the cluster holds, or is to; empty unless something is to be
	// placed
	load   map[int32]int
	racks  map[int32]string // of the cluster's brokers, as far as their Leases tell
	placed placed           // includes all of partitions
	// departed are the last statuses of those that are to be made again, by index.
	departed map[int32]v1alpha1.PartitionStatus
	report   *clusterReport // nil: the brokers were not asked yet

	refusal *metav1.Condition // why nothing is done; nil: it is done
}

// placed is where a Topic's partitions were last seen. Who deletes a Partition of a living Topic
// deletes no records: it is made again where they are, which nothing but this knows then. After a
// restart of the operator it is known of what exists only; a ValidatingAdmissionPolicy
// (config/admission) keeps hands off meanwhile.
type placed struct {
	topic    types.UID
	replicas map[int32][]int32   // by index
	uids     map[int32]types.UID // of the Partitions, by index
}

// see takes in the partitions that exist. A Topic made anew begins without a memory: a UID is never
// used twice, a name is. The map is changed in place, which the one worker of the topic controller
// allows.
func (p placed) see(scope *topicScope) placed {
	if p.topic != scope.topic.UID {
		p = placed{topic: scope.topic.UID, replicas: map[int32][]int32{},
			uids: map[int32]types.UID{}}
	}
	for index, partition := range scope.partitions {
		p.replicas[index], p.uids[index] = partition.Spec.Replicas, partition.UID
	}
	return p
}

// gather reads; nil if there is no such Topic.
func (r *topicReconciler) gather(ctx context.Context, key types.NamespacedName) (*topicScope,
	error) {
	scope := &topicScope{topic: &v1alpha1.Topic{}, partitions: map[int32]*v1alpha1.Partition{},
		load: map[int32]int{}}
	if err := r.Get(ctx, key, scope.topic); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	clusterKey := types.NamespacedName{Namespace: key.Namespace, Name: scope.topic.Spec.Cluster}
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, clusterKey, cluster); err == nil {
		scope.cluster = cluster
	} else if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the topic's cluster: %w", err)
	}
	if err := r.gatherSameName(ctx, scope); err != nil {
		return nil, err
	}
	if err := r.gatherPartitions(ctx, scope); err != nil {
		return nil, err
	}
	scope.placed = r.placed[key].see(scope)
	r.placed[key] = scope.placed
	r.recall(key, scope)
	scope.report = r.reports.of(clusterKey)
	return scope, nil
}

// recall takes what is known of partitions that were deleted and are to be made again, and forgets
// those that were. One that is there may have been deleted since it was read.
func (r *topicReconciler) recall(key types.NamespacedName, scope *topicScope) {
	scope.departed = map[int32]v1alpha1.PartitionStatus{}
	latest := map[types.UID]bool{}
	for index, uid := range scope.placed.uids {
		latest[uid] = true
		if status, ok := r.departed.of(key, uid); ok && scope.partitions[index] == nil {
			scope.departed[index] = status
		}
	}
	r.departed.keep(key, func(uid types.UID) bool { return latest[uid] })
}

// gatherSameName finds the Topics that claim the topic's Kafka name in its cluster, but for itself.
func (r *topicReconciler) gatherSameName(ctx context.Context, scope *topicScope) error {
	claimants := &v1alpha1.TopicList{}
	fields := client.MatchingFields{byKafkaName: kafkaNameKey(scope.topic)}
	if err := r.List(ctx, claimants, client.InNamespace(scope.topic.Namespace),
		fields); err != nil {
		return fmt.Errorf("list the topics of the same name: %w", err)
	}
	for _, claimant := range claimants.Items {
		if claimant.UID != scope.topic.UID {
			scope.sameName = append(scope.sameName, claimant)
		}
	}
	return nil
}

// gatherPartitions sorts what is there into partitions and strangers, and counts the brokers' load
// if any are missing.
func (r *topicReconciler) gatherPartitions(ctx context.Context, scope *topicScope) error {
	namespace := client.InNamespace(scope.topic.Namespace)
	mine, all := &v1alpha1.PartitionList{}, &v1alpha1.PartitionList{}
	if err := r.List(ctx, mine, namespace,
		client.MatchingFields{byTopic: scope.topic.Name}); err != nil {
		return fmt.Errorf("list the topic's partitions: %w", err)
	}
	for i := range mine.Items {
		scope.classify(&mine.Items[i])
	}
	if !scope.places() {
		return nil // so no need for the load
	}
	if err := r.gatherRacks(ctx, scope); err != nil {
		return err
	}
	if err := r.List(ctx, all, namespace,
		client.MatchingFields{byCluster: scope.topic.Spec.Cluster},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the cluster's partitions: %w", err)
	}
	for _, partition := range all.Items {
		for _, broker := range partition.Spec.Replicas {
			scope.load[broker]++
		}
	}
	return nil
}

// places tells whether there may be something to place: partitions that are missing, or that do not
// fit.
func (s *topicScope) places() bool {
	if s.cluster == nil || len(s.partitions) < int(s.topic.Spec.Partitions) {
		return true
	}
	for _, partition := range s.partitions {
		if !s.fits(partition) {
			return true
		}
	}
	return false
}

// gatherRacks reads the brokers' racks from their Leases. A broker that never ran has none yet, and
// counts as one of a rack that is like no other.
func (r *topicReconciler) gatherRacks(ctx context.Context, scope *topicScope) error {
	leases := &coordinationv1.LeaseList{}
	ours := client.MatchingLabels{v1alpha1.LabelCluster: scope.topic.Spec.Cluster}
	if err := r.List(ctx, leases, client.InNamespace(scope.topic.Namespace), ours); err != nil {
		return fmt.Errorf("list the brokers' leases: %w", err)
	}
	scope.racks = map[int32]string{}
	for i := range leases.Items {
		cluster, broker, ok := v1alpha1.ParseBrokerLeaseName(leases.Items[i].Name)
		if ok && cluster == scope.topic.Spec.Cluster {
			scope.racks[broker] = leases.Items[i].Annotations[v1alpha1.AnnotationRack]
		}
	}
	return nil
}

// classify tells the topic's own partitions from strangers. Those beyond spec.partitions are
// neither: they remember records of an earlier, larger Topic of this name. One without an owner is
// the topic's own: it outlived a Topic of this name (reclaimPolicy Retain), and this Topic takes
// its records up again.
func (s *topicScope) classify(partition *v1alpha1.Partition) {
	owner := metav1.GetControllerOf(partition)
	switch {
	case partition.Spec.Cluster != s.topic.Spec.Cluster, owner != nil && owner.UID != s.topic.UID:
		s.strangers = append(s.strangers, partition)
	case partition.Spec.Index < s.topic.Spec.Partitions:
		s.partitions[partition.Spec.Index] = partition
	}
}
