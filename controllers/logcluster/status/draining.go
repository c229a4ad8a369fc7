package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
)

// scaledCondition returns condition Scaled.
func scaledCondition(s *facts.Facts, d facts.Draining,
	removal conditions.Removal) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionScaled, Status: metav1.ConditionFalse}
	target, running := s.Cluster.Spec.Brokers, s.RunningBrokers()
	switch {
	case d.Replicas > 0 && len(d.TooMany) > 0:
		condition.Reason = v1alpha1.ReasonReplicasDoNotFit
		condition.Message = fmt.Sprintf("No broker is removed, because %d brokers are too few for "+
			"the replicas of %s: lower spec.replicas of these Topics, or raise spec.brokers.",
			target, facts.FirstNames(d.TooMany))
	case d.Replicas == 0 && running > target && len(d.Unknown) > 0:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("No broker is removed, because the replicas of %d partitions or "+
			"PartitionSets are unknown: %s.", len(d.Unknown), d.Unknown[0])
	case d.Replicas == 0 && running > target:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf(
			"Brokers %d and above hold no replicas and are being removed.%s", target,
			conditions.Retained(d.Retained))
	case d.Replicas > 0 && removal.Reason != "":
		condition.Reason, condition.Message = removal.Reason, removal.Message
	case d.Replicas > 0:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("Brokers %d and above are removed once their replicas have "+
			"moved to other brokers: %d replicas of partitions %s remain.", target, d.Replicas,
			facts.FirstNames(d.Partitions))
	case running < target:
		condition.Reason = v1alpha1.ReasonBrokersNotReady
		condition.Message = fmt.Sprintf("The StatefulSet is being scaled from %d to %d "+
			"brokers.", running, target)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonScaled
		condition.Message = fmt.Sprintf("The LogCluster has %d brokers.", running)
		if d.Retained > 0 {
			condition.Message += fmt.Sprintf(" Volumes of removed brokers have records of %d retained "+
				"partitions of deleted topics.", d.Retained)
		}
	}
	return condition
}
