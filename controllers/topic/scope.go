package topic

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/refusal"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// scope contains the input of a Topic's reconciliation, and the reason for a refusal of the Topic.
type scope struct {
	topic   *v1alpha1.Topic
	cluster *v1alpha1.LogCluster // nil if the LogCluster does not exist
	older   *v1alpha1.Topic      // older Topic with the same Kafka name, or nil
	// colliding is an older Topic whose Kafka name collides, or nil.
	colliding *v1alpha1.Topic
	// entries contains the entries of the Topic's own partitions, by index.
	entries map[int32]partitionset.Entry
	invalid map[int32]bool // true for partitions whose entries cannot be parsed
	known   map[int32]bool // true for partitions with an entry, of this Topic or of an earlier one
	// removing contains the brokers that still remove the records of an earlier Topic, by partition.
	removing map[int32][]int32
	// brokers contains the states of the brokers of partitions without a leader.
	brokers map[int32]placement.BrokerState
	report  *reports.Cluster // nil before the first round of reports

	// refusal is condition Ready with the reason why the Topic is refused, or nil if it is not
	// refused.
	refusal *metav1.Condition
	// invalidMoves is the reason why the annotation heartwood.dev/reassign cannot be used, or nil.
	invalidMoves error
}

// gather reads a Topic's scope. It returns nil if the Topic does not exist.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*scope, error) {
	s := &scope{topic: &v1alpha1.Topic{}}
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
	if err := r.gatherOlder(ctx, s); err != nil {
		return nil, err
	}
	placed, err := r.Sets.OfCluster(ctx, key.Namespace, s.topic.Spec.Cluster)
	if err != nil {
		return nil, err
	}
	s.gatherEntries(placed)
	if err := r.gatherBrokers(ctx, s); err != nil {
		return nil, err
	}
	s.report = r.Reports.Latest(clusterKey)
	s.refusal = refusal.Check(refusal.Input{Topic: s.topic, Cluster: s.cluster, Older: s.older,
		Colliding: s.colliding,
		IsNew:     func(index int32) bool { return !s.known[index] }})
	if s.cluster != nil {
		_, s.invalidMoves = refusal.Reassignments(s.topic, s.cluster)
	}
	return s, nil
}

// gatherOlder finds the cluster's older Topics whose Kafka name is the same as, or collides with,
// this Topic's Kafka name.
func (r *Reconciler) gatherOlder(ctx context.Context, s *scope) error {
	claimants := &v1alpha1.TopicList{}
	fields := client.MatchingFields{index.ByKafkaName: index.KafkaNameKey(s.topic)}
	if err := r.List(ctx, claimants, client.InNamespace(s.topic.Namespace), fields); err != nil {
		return fmt.Errorf("list the topics of the same name: %w", err)
	}
	for i := range claimants.Items {
		claimant := &claimants.Items[i]
		switch {
		case claimant.UID == s.topic.UID || !claimant.OlderThan(s.topic):
		case claimant.KafkaName() == s.topic.KafkaName():
			s.older = claimant
		default:
			s.colliding = claimant
		}
	}
	return nil
}

// gatherEntries reads the entries of the Topic's partitions. It ignores entries of an earlier Topic
// of the same name: this Topic will adopt these entries, or they will be removed.
func (s *scope) gatherEntries(placed *sets.Cluster) {
	s.entries, s.invalid, s.known = map[int32]partitionset.Entry{}, map[int32]bool{},
		map[int32]bool{}
	s.removing = map[int32][]int32{}
	tag := sets.Tag(s.topic.UID)
	for index := range s.topic.Spec.Partitions {
		key := key(s.topic, index)
		entry := placed.Get(key)
		switch {
		case placed.Invalid(key):
			s.invalid[index], s.known[index] = true, true
		case entry.BelongsTo(tag):
			s.entries[index], s.known[index] = entry, true
		default:
			// Records of an earlier Topic with policy Delete are not adopted.
			s.known[index] = entry.State != nil || entry.Assignment != nil &&
				entry.Assignment.Reclaim != partitionset.Delete
			if a := entry.Assignment; a != nil && a.Reclaim == partitionset.Remove {
				s.known[index] = false
				if entry.State != nil {
					s.removing[index] = entry.State.Replicas
				}
			}
		}
	}
}

// gatherBrokers reads the states of the brokers of partitions without a leader.
func (r *Reconciler) gatherBrokers(ctx context.Context, s *scope) error {
	s.brokers = map[int32]placement.BrokerState{}
	for _, entry := range s.entries {
		if entry.State != nil && entry.State.Leader != placement.NoLeader {
			continue
		}
		for _, id := range entry.Brokers() {
			if _, known := s.brokers[id]; known {
				continue
			}
			state, _, err := r.Brokers.State(ctx, types.NamespacedName{
				Namespace: s.topic.Namespace,
				Name:      v1alpha1.BrokerLeaseName(s.topic.Spec.Cluster, id)})
			if err != nil {
				return err
			}
			s.brokers[id] = state
		}
	}
	return nil
}

func key(topic *v1alpha1.Topic, index int32) partitionset.Key {
	return partitionset.Key{Topic: topic.Name, Index: index}
}
