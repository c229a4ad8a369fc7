package topic

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
)

// namesMax is the maximum number of partitions in a message.
const namesMax = 5

// status returns the Topic's complete new status.
func (s *scope) status() v1alpha1.TopicStatus {
	status := *s.topic.Status.DeepCopy()
	status.ObservedGeneration = s.topic.Generation
	status.TopicName, status.TopicID = s.topic.KafkaName(), ""
	if id, ok := sets.ID(s.topic.UID); ok {
		status.TopicID = id.String()
	}
	status.Partitions = int32(len(s.entries))
	// An unassigned partition has no in-sync replica.
	status.ReadyPartitions = 0
	status.UnderReplicatedPartitions = s.topic.Spec.Partitions - status.Partitions
	for _, entry := range s.entries {
		if entry.Serves() {
			status.ReadyPartitions++
		}
		if entry.UnderReplicated() {
			status.UnderReplicatedPartitions++
		}
	}
	status.Problems = s.problems()
	s.set(&status, s.readyCondition(status))
	s.set(&status, s.replicatedCondition(status))
	s.setCompaction(&status)
	s.setCompression(&status)
	conditions.SetProgress(&status.Conditions, s.topic.Generation)
	return status
}

// setCompression sets the effective compression. If there is no cluster, or the settings contradict
// the cluster's defaults, the compression is unknown. The field is then removed, because its
// earlier value may be wrong.
func (s *scope) setCompression(status *v1alpha1.TopicStatus) {
	status.Compression = nil
	if s.cluster == nil {
		return
	}
	if settings, err := metadata.SettingsOf(s.topic, s.cluster); err == nil {
		status.Compression = metadata.Compression(settings)
	}
}

// set sets a condition. Its observedGeneration is the generation of the Topic in the scope.
func (s *scope) set(status *v1alpha1.TopicStatus, condition metav1.Condition) {
	condition.ObservedGeneration = s.topic.Generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// readyCondition returns condition Ready. A refusal takes precedence over the number of ready
// partitions, because the existing partitions of a refused Topic may continue to serve.
func (s *scope) readyCondition(status v1alpha1.TopicStatus) metav1.Condition {
	if s.refusal != nil {
		return *s.refusal
	}
	if s.topic.Spec.Partitions == 0 {
		return conditions.NotReady(v1alpha1.ReasonPartitionsNotReady,
			"The operator is setting spec.partitions to the LogCluster's default.")
	}
	if status.ReadyPartitions == s.topic.Spec.Partitions && !s.cluster.Status.Bootstrapped &&
		!meta.IsStatusConditionTrue(s.topic.Status.Conditions, v1alpha1.ConditionReady) {
		return conditions.NotReady(v1alpha1.ReasonBootstrapPending, fmt.Sprintf("Every partition has "+
			"a serving leader, but clients cannot connect yet: Service %s has no ready endpoint.",
			render.BootstrapServiceName(s.cluster.Name)))
	}
	if status.ReadyPartitions == s.topic.Spec.Partitions {
		return conditions.Ready("Every partition has a serving leader.")
	}
	return conditions.NotReady(v1alpha1.ReasonPartitionsNotReady, fmt.Sprintf(
		"%d of %d partitions have a serving leader; status.problems says what these wait for: "+
			"partitions %s.%s", status.ReadyPartitions, s.topic.Spec.Partitions,
		s.numbers(func(entry partitionset.Entry) bool { return !entry.Serves() }),
		firstFailedLeader(status)))
}

// firstFailedLeader returns the description of the first partition whose leader has failed, as the
// end of a condition's message; "" if there is none.
func firstFailedLeader(status v1alpha1.TopicStatus) string {
	for _, p := range status.Problems {
		if p.Reason == v1alpha1.ReasonLeaderFailed {
			return fmt.Sprintf(" Partition %d: %s", p.Partition, p.Message)
		}
	}
	return ""
}

// replicatedCondition returns condition Replicated. Reason Reassigning takes precedence over
// UnderReplicated, because during a reassignment the new replicas are not yet in sync.
func (s *scope) replicatedCondition(status v1alpha1.TopicStatus) metav1.Condition {
	all, reassigning := s.topic.Spec.Partitions, 0
	for _, entry := range s.entries {
		if entry.Reassigning() {
			reassigning++
		}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse}
	switch {
	case s.invalidMoves != nil:
		condition.Reason = v1alpha1.ReasonInvalidReassignment
		condition.Message = fmt.Sprintf("The annotation %s cannot be used: %v. Correct or remove the "+
			"annotation.", v1alpha1.AnnotationReassign, s.invalidMoves)
	case reassigning > 0:
		condition.Reason = v1alpha1.ReasonReassigning
		condition.Message = fmt.Sprintf("%d of %d partitions are being reassigned: %s.",
			reassigning, all, s.numbers(partitionset.Entry.Reassigning))
	case status.UnderReplicatedPartitions > 0:
		condition.Reason = v1alpha1.ReasonUnderReplicated
		condition.Message = fmt.Sprintf(
			"%d of %d partitions are under-replicated: %s.",
			status.UnderReplicatedPartitions, all,
			s.numbers(partitionset.Entry.UnderReplicated))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInSync
		condition.Message = "Every replica is in sync."
	}
	return condition
}

// numbers joins the numbers of the first namesMax partitions for which matches returns true. An
// unassigned partition has an empty entry.
func (s *scope) numbers(matches func(partitionset.Entry) bool) string {
	var numbers []string
	for index := range s.topic.Spec.Partitions {
		if !matches(s.entries[index]) {
			continue
		}
		if len(numbers) == namesMax {
			return strings.Join(numbers, " ") + " ..."
		}
		numbers = append(numbers, strconv.Itoa(int(index)))
	}
	return strings.Join(numbers, " ")
}
