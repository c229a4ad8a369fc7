package topic

import (
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/metadata"
)

// namesMax is the maximum number of partitions that a message names.
const namesMax = 5

// status returns the complete new status. It is computed from the scope, which was read before this
// reconciliation wrote anything. The events of these writes trigger another reconciliation, which
// updates the status.
func (s *scope) status() v1alpha1.TopicStatus {
	status := *s.topic.Status.DeepCopy()
	status.ObservedGeneration = s.topic.Generation
	status.TopicID = topicID(s.topic.UID)
	status.Partitions = int32(len(s.partitions))
	status.ReadyPartitions, status.UnderReplicated = 0, 0
	for _, partition := range s.partitions {
		if partition.Ready() {
			status.ReadyPartitions++
		}
		if partition.UnderReplicated() {
			status.UnderReplicated++
		}
	}
	s.set(&status, s.readyCondition(status))
	s.set(&status, s.replicatedCondition(status))
	s.setCompaction(&status)
	s.setCompression(&status)
	return status
}

// setCompression sets the effective compression. If there is no cluster, or the settings contradict
// the cluster's defaults, the compression is unknown and the field is removed: its earlier value
// may be wrong.
func (s *scope) setCompression(status *v1alpha1.TopicStatus) {
	status.Compression = nil
	if s.cluster == nil {
		return
	}
	if settings, err := metadata.ResolveSettings(s.topic.Spec.TopicSettings,
		s.cluster); err == nil {
		status.Compression = metadata.Compression(settings)
	}
}

// set sets a condition, with the generation of the Topic in the scope as observedGeneration.
func (s *scope) set(status *v1alpha1.TopicStatus, condition metav1.Condition) {
	condition.ObservedGeneration = s.topic.Generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// readyCondition returns condition Ready. A refusal takes precedence over the number of ready
// partitions: the existing partitions of a refused Topic may continue to serve.
func (s *scope) readyCondition(status v1alpha1.TopicStatus) metav1.Condition {
	if s.refusal != nil {
		return *s.refusal
	}
	if s.topic.Spec.Partitions == 0 {
		return conditions.NotReady(v1alpha1.ReasonPartitionsNotReady,
			"The operator is setting spec.partitions to the LogCluster's default.")
	}
	if status.ReadyPartitions == s.topic.Spec.Partitions {
		return conditions.Ready("Every partition has a serving leader.")
	}
	names := s.names(func(partition *v1alpha1.Partition) bool {
		return partition == nil || !partition.Ready()
	})
	return conditions.NotReady(v1alpha1.ReasonPartitionsNotReady, fmt.Sprintf(
		"%d of %d partitions have a serving leader; see condition Ready of Partitions %s.",
		status.ReadyPartitions, s.topic.Spec.Partitions, names))
}

// replicatedCondition returns condition Replicated. Reason Reassigning takes precedence over
// UnderReplicated, because during a reassignment the new replicas are not yet in sync.
func (s *scope) replicatedCondition(status v1alpha1.TopicStatus) metav1.Condition {
	all, reassigning := s.topic.Spec.Partitions, 0
	for _, partition := range s.partitions {
		if partition.Reassigning() {
			reassigning++
		}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse}
	switch {
	case reassigning > 0:
		condition.Reason = v1alpha1.ReasonReassigning
		condition.Message = fmt.Sprintf("%d of %d partitions are being reassigned: %s.",
			reassigning, all, s.names(func(partition *v1alpha1.Partition) bool {
				return partition != nil && partition.Reassigning()
			}))
	case status.UnderReplicated > 0 || status.Partitions < all:
		condition.Reason = v1alpha1.ReasonUnderReplicated
		condition.Message = fmt.Sprintf(
			"%d of %d partitions are under-replicated: %s.",
			all-status.Partitions+status.UnderReplicated, all,
			s.names(func(partition *v1alpha1.Partition) bool {
				return partition == nil || partition.UnderReplicated()
			}))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInSync
		condition.Message = "Every replica is in sync."
	}
	return condition
}

// names joins the names of the first namesMax partitions for which matches returns true. The
// argument of matches is nil if the Partition does not exist.
func (s *scope) names(matches func(*v1alpha1.Partition) bool) string {
	var names []string
	for index := range s.topic.Spec.Partitions {
		if !matches(s.partitions[index]) {
			continue
		}
		if len(names) == namesMax {
			return strings.Join(names, " ") + " ..."
		}
		names = append(names, v1alpha1.PartitionName(s.topic.Name, index))
	}
	return strings.Join(names, " ")
}

// topicID returns a Topic's uid in the format of Kafka topic ids, or "" if the uid is not a UUID.
func topicID(uid types.UID) string {
	var id metadata.ID
	digits := strings.ReplaceAll(string(uid), "-", "")
	if len(digits) != 2*len(id) {
		return ""
	}
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ""
	}
	return id.String()
}
