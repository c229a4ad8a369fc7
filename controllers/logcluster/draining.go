package logcluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/metadata"
)

// namesMax is the maximum number of resources that a message names.
const namesMax = 5

// draining describes the brokers that are to be removed, and the replicas that they still hold.
type draining struct {
	replicas   int32    // replicas that brokers to be removed hold or are assigned
	partitions []string // the partitions of these replicas, sorted
	// brokers is the number of running brokers until draining is done: the highest id of a broker
	// with replicas, plus one, and at least spec.brokers.
	brokers int32
	// retained is the number of retained partitions of deleted topics with a replica on a broker that
	// is to be removed, or was. They do not move.
	retained int
	tooMany  []string // Topics with more replicas than spec.brokers, sorted
	// unknown describes the PartitionSets and partitions whose replicas are unknown, sorted. No broker
	// is removed until they are known.
	unknown []string
}

// drain returns the replicas that are still to be moved. It ignores partitions whose Topic was
// deleted: a broker that holds only their records may be removed, because its volume with these
// records is kept.
func (s *scope) drain() draining {
	d := draining{brokers: s.cluster.Spec.Brokers}
	tags := s.topicTags()
	for i := range s.topics {
		topic := &s.topics[i]
		if metadata.Replicas(topic.Spec.TopicSettings, s.cluster) > int(s.cluster.Spec.Brokers) {
			d.tooMany = append(d.tooMany, topic.Name)
		}
	}
	slices.Sort(d.tooMany)
	for key, entry := range s.sets.All() {
		held := int32(0)
		if entry.Retained() && slices.ContainsFunc(entry.Brokers(),
			func(id int32) bool { return id >= s.cluster.Spec.Brokers }) {
			d.retained++
		}
		if !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		for _, id := range entry.Brokers() {
			if id >= s.cluster.Spec.Brokers {
				held++
				d.brokers = max(d.brokers, id+1)
			}
		}
		if held > 0 {
			d.partitions = append(d.partitions, key.String())
		}
		d.replicas += held
	}
	slices.Sort(d.partitions)
	if d.unknown = s.unknownReplicas(tags); len(d.unknown) > 0 {
		d.brokers = max(d.brokers, s.runningBrokers())
	}
	return d
}

// unknownReplicas describes the PartitionSets that do not exist, because they were deleted and are
// created again, and the partitions of existing Topics whose entries cannot be parsed.
func (s *scope) unknownReplicas(tags map[string]string) (unknown []string) {
	for number := range s.sets.Count {
		set := s.sets.Sets[number]
		if set == nil {
			unknown = append(unknown, "PartitionSet "+
				v1alpha1.PartitionSetName(s.cluster.Name, number)+" (does not exist)")
			continue
		}
		for _, key := range set.InvalidKeys() {
			if _, exists := tags[key.Topic]; exists {
				unknown = append(unknown, key.String()+" (correct its entry in PartitionSet "+
					v1alpha1.PartitionSetName(s.cluster.Name, number)+")")
			}
		}
	}
	slices.Sort(unknown)
	return unknown
}

// scaledCondition returns condition Scaled.
func scaledCondition(s *scope, d draining) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionScaled, Status: metav1.ConditionFalse}
	target, running := s.cluster.Spec.Brokers, s.runningBrokers()
	switch {
	case d.replicas > 0 && len(d.tooMany) > 0:
		condition.Reason = v1alpha1.ReasonReplicasDoNotFit
		condition.Message = fmt.Sprintf("No broker is removed, because %d brokers are too few for "+
			"the replicas of %s: lower spec.replicas of these Topics, or raise spec.brokers.",
			target, firstNames(d.tooMany))
	case d.replicas == 0 && running > target && len(d.unknown) > 0:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("No broker is removed, because the replicas of %d partitions or "+
			"PartitionSets are unknown: %s.", len(d.unknown), d.unknown[0])
	case d.replicas == 0 && running > target:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf(
			"Brokers %d and above hold no replicas and are being removed.%s", target,
			conditions.Retained(d.retained))
	case d.replicas > 0 && s.removal.Reason != "":
		condition.Reason, condition.Message = s.removal.Reason, s.removal.Message
	case d.replicas > 0:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("Brokers %d and above are removed once their replicas have "+
			"moved to other brokers: %d replicas of partitions %s remain.", target, d.replicas,
			firstNames(d.partitions))
	case running < target:
		condition.Reason = v1alpha1.ReasonBrokersNotReady
		condition.Message = fmt.Sprintf("The StatefulSet is being scaled from %d to %d "+
			"brokers.", running, target)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonScaled
		condition.Message = fmt.Sprintf("The LogCluster has %d brokers.", running)
		if d.retained > 0 {
			condition.Message += fmt.Sprintf(" Volumes of removed brokers have records of %d retained "+
				"partitions of deleted topics.", d.retained)
		}
	}
	return condition
}

// firstNames joins the first namesMax names, followed by "..." if there are more names.
func firstNames(names []string) string {
	if len(names) > namesMax {
		return strings.Join(names[:namesMax], " ") + " ..."
	}
	return strings.Join(names, " ")
}
