package controllers

import (
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// namesMax is how many partitions a message names; more would not be read.
const namesMax = 5

// status says how the topic is, from what was gathered before anything was made: what is made now
// brings us here again.
func (s *topicScope) status() v1alpha1.TopicStatus {
	status := *s.topic.Status.DeepCopy()
	status.ObservedGeneration = s.topic.Generation
	status.TopicID = topicID(s.topic.UID)
	status.Partitions, status.ReadyPartitions, status.UnderReplicated = int32(len(s.partitions)), 0,
		0
	for _, partition := range s.partitions {
		if partitionReady(partition) {
			status.ReadyPartitions++
		}
		if underReplicated(partition) {
			status.UnderReplicated++
		}
	}
	s.set(&status, s.readiness(status))
	s.set(&status, s.replication(status))
	s.setCompaction(&status)
	s.setCompression(&status)
	return status
}

// setCompression shows what the topic's settings come to. While they cannot be known (no cluster,
// or settings that contradict its defaults) it shows nothing rather than what was true before.
func (s *topicScope) setCompression(status *v1alpha1.TopicStatus) {
	status.Compression = nil
	if s.cluster == nil {
		return
	}
	if settings, err := metadata.ResolveSettings(s.topic.Spec.TopicSettings,
		s.cluster); err == nil {
		status.Compression = metadata.Compression(settings)
	}
}

// set sets a condition as of the generation that was looked at.
func (s *topicScope) set(status *v1alpha1.TopicStatus, condition metav1.Condition) {
	condition.ObservedGeneration = s.topic.Generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// readiness is condition Ready. A refusal goes before all counts: partitions of a refused Topic may
// serve on, and that is not news.
func (s *topicScope) readiness(status v1alpha1.TopicStatus) metav1.Condition {
	if s.refusal != nil {
		return *s.refusal
	}
	if status.ReadyPartitions == s.topic.Spec.Partitions {
		return ready("every partition has a serving leader")
	}
	names := s.names(func(partition *v1alpha1.Partition) bool {
		return partition == nil ||
			!partitionReady(partition)
	})
	return notReady(v1alpha1.ReasonPartitionsNotReady,
		fmt.Sprintf("%d of %d partitions have a serving leader; without one: %s",
			status.ReadyPartitions, s.topic.Spec.Partitions, names))
}

// replication is condition Replicated. Of a move it tells first: while one lasts, its new replicas
// are not in sync.
func (s *topicScope) replication(status v1alpha1.TopicStatus) metav1.Condition {
	moving := 0
	for _, partition := range s.partitions {
		if moves(partition) {
			moving++
		}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse}
	switch {
	case moving > 0:
		condition.Reason = v1alpha1.ReasonReassigning
		condition.Message = fmt.Sprintf("%d of %d partitions move to other replicas: %s", moving,
			s.topic.Spec.Partitions,
			s.names(func(partition *v1alpha1.Partition) bool {
				return partition != nil &&
					moves(partition)
			}))
	case status.UnderReplicated > 0 || status.Partitions < s.topic.Spec.Partitions:
		condition.Reason = v1alpha1.ReasonUnderReplicated
		condition.Message = fmt.Sprintf(
			"of %d partitions %d have not all their replicas in sync: %s",
			s.topic.Spec.Partitions,
			s.topic.Spec.Partitions-status.Partitions+status.UnderReplicated,
			s.names(func(partition *v1alpha1.Partition) bool {
				return partition == nil ||
					underReplicated(partition)
			}),
		)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInSync
		condition.Message = "every replica is in sync"
	}
	return condition
}

// names are those of the first partitions that are such; of one that is not there yet, such is
// asked with nil.
func (s *topicScope) names(such func(*v1alpha1.Partition) bool) string {
	var names []string
	for index := range s.topic.Spec.Partitions {
		if !such(s.partitions[index]) {
			continue
		}
		if len(names) == namesMax {
			return strings.Join(names, " ") + " ..."
		}
		names = append(names, v1alpha1.PartitionName(s.topic.Name, index))
	}
	return strings.Join(names, " ")
}

func partitionReady(partition *v1alpha1.Partition) bool {
	return meta.IsStatusConditionTrue(partition.Status.Conditions, v1alpha1.ConditionReady)
}

// topicID is the uid as Kafka's tools print it, or "" for a uid that is no UUID.
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
