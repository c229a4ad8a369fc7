package facts

import (
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// Replication describes the replicas of the partitions of existing Topics. It ignores retained
// partitions, because they do not serve clients: their Topic was deleted or has fewer partitions.
type Replication struct {
	Partitions, UnderReplicated, Leaderless int32
	// behind contains the under-replicated partitions that are not being reassigned.
	behind []partitionset.Key
	// reassigning contains the partitions that are being reassigned. While records are copied to their
	// new replicas, these replicas are not in sync, which is not a fault.
	reassigning []partitionset.Key
}

// Replication returns the replication of the partitions of existing Topics.
func (s *Facts) Replication() Replication { return s.walked().replication }

// Condition returns condition Replicated. Here UnderReplicated takes precedence over Reassigning,
// unlike in the status of a Topic. The reason is that a rebalance of the LogCluster can take hours,
// and must not hide a broker that has fallen behind.
func (r Replication) Condition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse}
	switch {
	case len(r.behind) > 0:
		condition.Reason = v1alpha1.ReasonUnderReplicated
		condition.Message = fmt.Sprintf("%d of %d partitions are under-replicated: %s.",
			len(r.behind), r.Partitions, firstKeys(r.behind))
		if len(r.reassigning) > 0 {
			condition.Message += fmt.Sprintf(" %d others are being reassigned.", len(r.reassigning))
		}
	case len(r.reassigning) > 0:
		condition.Reason = v1alpha1.ReasonReassigning
		condition.Message = fmt.Sprintf("%d of %d partitions are being reassigned: %s.",
			len(r.reassigning), r.Partitions, firstKeys(r.reassigning))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInSync
		condition.Message = "Every replica is in sync."
	}
	return condition
}

// ReadyMessage returns the message of condition Ready while all brokers are up. The condition's
// status does not depend on the replicas, but its message must not hide problems with them.
func (r Replication) ReadyMessage() string {
	if r.UnderReplicated == 0 {
		return "All brokers are up."
	}
	return fmt.Sprintf("All brokers are up; %d of %d partitions are under-replicated.",
		r.UnderReplicated, r.Partitions)
}

// firstKeys joins the first names of sorted partitions. The order of the entries varies, so without
// sorting, the message would vary, too, and require needless writes of the status.
func firstKeys(keys []partitionset.Key) string {
	slices.SortFunc(keys, partitionset.Key.Compare)
	var names []string
	for _, key := range keys[:min(len(keys), namesMax+1)] {
		names = append(names, key.String())
	}
	return FirstNames(names)
}

// Leaders returns the number of partitions that each broker leads.
func (s *Facts) Leaders() map[int32]int { return s.walked().leaders }

// InISR reports whether a broker is in the ISR of any partition.
func (s *Facts) InISR(id int32) bool { return s.walked().inISR[id] }

// InISR reports whether a broker is in the ISR of any partition. Before a step that cannot be
// undone, call it with partitions that were read from the API server itself. Facts must not be used
// for this, because they come from the cache.
func InISR(all *sets.Cluster, id int32) bool {
	for _, entry := range all.All() {
		if entry.State != nil && slices.ContainsFunc(entry.State.ISR,
			func(m placement.InSyncReplica) bool { return m.Broker == id }) {
			return true
		}
	}
	return false
}

// Assignments returns the assigned replicas of each partition of existing Topics, by partition
// name.
func (s *Facts) Assignments() iter.Seq2[string, []int32] {
	return func(yield func(string, []int32) bool) {
		for _, p := range s.walked().assigned {
			if !yield(p.name, p.replicas) {
				return
			}
		}
	}
}

// Lendable returns those elected partitions of existing Topics that have a lent replica or can get
// one (LendsTo).
func (s *Facts) Lendable() []Partition { return s.walked().lendable }

// Orphaned returns the partitions of deleted Topics whose records are retained or being removed.
func (s *Facts) Orphaned() []Partition { return s.walked().orphaned }

// LendsTo reports whether a Topic's partitions get a second replica while their broker is
// restarted.
func (s *Facts) LendsTo(topic *v1alpha1.Topic) bool {
	return s.Cluster.Spec.Rollout.LendsReplicas() && s.HasSingleReplica(topic)
}

// HasSingleReplica reports whether each partition of a Topic has only one replica.
func (s *Facts) HasSingleReplica(topic *v1alpha1.Topic) bool {
	return metadata.Replicas(topic.Spec.TopicSettings, s.Cluster) == 1
}

// CountLent returns the number of partitions with a lent replica.
func (s *Facts) CountLent() int32 { return s.walked().lent }
