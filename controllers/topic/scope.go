package topic

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/reports"
)

// scope contains the input of one reconciliation of a Topic, and the reason if the Topic is
// refused.
type scope struct {
	topic    *v1alpha1.Topic
	cluster  *v1alpha1.LogCluster // nil if it does not exist
	sameName []v1alpha1.Topic     // other Topics of the cluster that claim the Kafka name
	// partitions are the Topic's own Partitions, by index.
	partitions map[int32]*v1alpha1.Partition
	// conflicting are Partitions with names that the Topic needs, but which belong to another
	// LogCluster or to an earlier Topic.
	conflicting []*v1alpha1.Partition
	// load is the number of replicas on each broker, over all Topics of the cluster, as in
	// spec.replicas. It is empty unless replicas are to be assigned.
	load      map[int32]int
	racks     map[int32]string // rack of each broker whose Lease contains one
	placement lastPlacement    // last known placement; contains at least the existing partitions
	// initial contains the replicas that spec.initialReplicas assigns to new partitions, by index.
	initial map[int32][]int32
	// lastStatus contains the last status of each Partition that is to be created again, by index.
	lastStatus map[int32]v1alpha1.PartitionStatus
	report     *reports.Cluster // nil before the first round of reports

	// refusal is the condition Ready that says why the Topic is not reconciled, nil if it is
	// reconciled.
	refusal *metav1.Condition
}

// gather reads the scope of a Topic. It returns nil if the Topic does not exist.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*scope, error) {
	s := &scope{topic: &v1alpha1.Topic{}, partitions: map[int32]*v1alpha1.Partition{},
		load: map[int32]int{}}
	if err := r.Get(ctx, key, s.topic); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	clusterKey := types.NamespacedName{Namespace: key.Namespace, Name: s.topic.Spec.Cluster}
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, clusterKey, cluster); err == nil {
		s.cluster = cluster
	} else if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the topic's cluster: %w", err)
	}
	if err := r.gatherSameName(ctx, s); err != nil {
		return nil, err
	}
	if err := r.gatherPartitions(ctx, s); err != nil {
		return nil, err
	}
	s.placement = r.placements.observe(key, s)
	r.gatherLastStatus(key, s)
	s.report = r.Reports.Latest(clusterKey)
	return s, nil
}

// gatherLastStatus reads the last status of each Partition that is to be created again. It removes
// statuses of earlier Partitions from the cache r.deleted. It keeps the status of each Partition
// whose UID was the last observed for its index: even a Partition in s.partitions may have been
// deleted after it was read.
func (r *Reconciler) gatherLastStatus(key types.NamespacedName, s *scope) {
	s.lastStatus = map[int32]v1alpha1.PartitionStatus{}
	latest := map[types.UID]bool{}
	for index, uid := range s.placement.uids {
		latest[uid] = true
		if status, ok := r.deleted.Get(key, uid); ok && s.partitions[index] == nil {
			s.lastStatus[index] = status
		}
	}
	r.deleted.Retain(key, func(uid types.UID) bool { return latest[uid] })
}

// gatherSameName finds the other Topics of the cluster that claim the Topic's Kafka name.
func (r *Reconciler) gatherSameName(ctx context.Context, s *scope) error {
	claimants := &v1alpha1.TopicList{}
	fields := client.MatchingFields{index.ByKafkaName: index.KafkaNameKey(s.topic)}
	if err := r.List(ctx, claimants, client.InNamespace(s.topic.Namespace), fields); err != nil {
		return fmt.Errorf("list the topics of the same name: %w", err)
	}
	for _, claimant := range claimants.Items {
		if claimant.UID != s.topic.UID {
			s.sameName = append(s.sameName, claimant)
		}
	}
	return nil
}

// gatherPartitions classifies the existing Partitions. If replicas are to be assigned, it also
// counts the replicas on each broker and reads the brokers' racks.
func (r *Reconciler) gatherPartitions(ctx context.Context, s *scope) error {
	namespace := client.InNamespace(s.topic.Namespace)
	ofTopic, ofCluster := &v1alpha1.PartitionList{}, &v1alpha1.PartitionList{}
	if err := r.List(ctx, ofTopic, namespace,
		client.MatchingFields{index.ByTopic: s.topic.Name}); err != nil {
		return fmt.Errorf("list the topic's partitions: %w", err)
	}
	for i := range ofTopic.Items {
		s.classify(&ofTopic.Items[i])
	}
	if !s.needsAssignment() {
		return nil
	}
	if err := r.gatherRacks(ctx, s); err != nil {
		return err
	}
	if err := r.List(ctx, ofCluster, namespace,
		client.MatchingFields{index.ByCluster: s.topic.Spec.Cluster},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the cluster's partitions: %w", err)
	}
	for i := range ofCluster.Items {
		for _, broker := range ofCluster.Items[i].Spec.Replicas {
			s.load[broker]++
		}
	}
	return nil
}

// needsAssignment reports whether replicas may have to be assigned: a Partition is missing or does
// not have valid replicas.
func (s *scope) needsAssignment() bool {
	if s.cluster == nil || len(s.partitions) < int(s.topic.Spec.Partitions) {
		return true
	}
	for _, partition := range s.partitions {
		if !s.hasValidReplicas(partition) {
			return true
		}
	}
	return false
}

// gatherRacks reads the brokers' racks from their Leases. A broker that has never run has no Lease
// and is treated like a broker without a rack.
func (r *Reconciler) gatherRacks(ctx context.Context, s *scope) error {
	leases := &coordinationv1.LeaseList{}
	ofCluster := client.MatchingLabels{v1alpha1.LabelCluster: s.topic.Spec.Cluster}
	if err := r.List(ctx, leases, client.InNamespace(s.topic.Namespace), ofCluster); err != nil {
		return fmt.Errorf("list the brokers' leases: %w", err)
	}
	s.racks = map[int32]string{}
	for i := range leases.Items {
		cluster, broker, ok := v1alpha1.ParseBrokerLeaseName(leases.Items[i].Name)
		if ok && cluster == s.topic.Spec.Cluster {
			s.racks[broker] = leases.Items[i].Annotations[v1alpha1.AnnotationRack]
		}
	}
	return nil
}

// classify adds a Partition to s.partitions or to s.conflicting. It ignores a Partition whose index
// is not below spec.partitions: its records belong to an earlier Topic of this name with more
// partitions. A Partition without an owner belongs to this Topic: it was retained by an earlier
// Topic of this name (reclaimPolicy Retain), and this Topic continues with its records.
func (s *scope) classify(partition *v1alpha1.Partition) {
	owner := metav1.GetControllerOf(partition)
	switch {
	case partition.Spec.Cluster != s.topic.Spec.Cluster, owner != nil && owner.UID != s.topic.UID:
		s.conflicting = append(s.conflicting, partition)
	case partition.Spec.Index < s.topic.Spec.Partitions:
		s.partitions[partition.Spec.Index] = partition
	}
}
