package topic

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/metadata"
)

// validate returns a condition that says why the Topic cannot be reconciled, or nil. If there are
// several reasons, it returns the most basic one. The order also matters because the checks after
// clusterNotFound require a cluster.
func (s *scope) validate() *metav1.Condition {
	for _, check := range []func() *metav1.Condition{
		s.deleting, s.clusterNotFound, s.nameTaken, s.invalidSettings, s.notEnoughBrokers,
		s.invalidInitialReplicas, s.partitionNameTaken,
	} {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// refuse returns condition Ready with status False. Its message is values formatted by format.
func refuse(reason, format string, values ...any) *metav1.Condition {
	condition := conditions.NotReady(reason, fmt.Sprintf(format, values...))
	return &condition
}

func (s *scope) deleting() *metav1.Condition {
	if s.topic.DeletionTimestamp.IsZero() {
		return nil
	}
	return refuse(v1alpha1.ReasonDeleting,
		"The Topic is being deleted and waits for its finalizers %v.", s.topic.Finalizers)
}

func (s *scope) clusterNotFound() *metav1.Condition {
	if s.cluster != nil {
		return nil
	}
	return refuse(v1alpha1.ReasonClusterNotFound,
		"Namespace %s has no LogCluster %s: create the LogCluster, or delete the Topic and create "+
			"it with the name of another LogCluster in spec.cluster.",
		s.topic.Namespace, s.topic.Spec.Cluster)
}

// nameTaken refuses the Topic if an older Topic claims the same Kafka name. The oldest Topic keeps
// the name, so a new Topic cannot take it away.
func (s *scope) nameTaken() *metav1.Condition {
	for i := range s.sameName {
		if s.sameName[i].OlderThan(s.topic) {
			return refuse(v1alpha1.ReasonTopicNameTaken,
				"The older Topic %s of LogCluster %s has the same Kafka name %s: delete one of "+
					"these two Topics.", s.sameName[i].Name, s.topic.Spec.Cluster, s.topic.KafkaName())
		}
	}
	return nil
}

// invalidSettings refuses a Topic whose settings contradict the cluster's defaults. A CEL rule
// cannot detect this, because it can read only one resource.
func (s *scope) invalidSettings() *metav1.Condition {
	_, err := metadata.ResolveSettings(s.topic.Spec.TopicSettings, s.cluster)
	if err == nil {
		err = metadata.CheckReplicas(s.topic.Spec.TopicSettings, s.cluster)
	}
	if err == nil {
		return nil
	}
	return refuse(v1alpha1.ReasonInvalidSettings,
		"The settings of the Topic and the topicDefaults "+
			"of LogCluster %s contradict each other: %v.", s.cluster.Name, err)
}

// notEnoughBrokers refuses a Topic with more replicas than the LogCluster has brokers. It uses the
// number in the LogCluster's spec, because a broker that is down is expected to return.
func (s *scope) notEnoughBrokers() *metav1.Condition {
	if s.replicas() <= int(s.cluster.Spec.Brokers) {
		return nil
	}
	return refuse(v1alpha1.ReasonNotEnoughBrokers,
		"The Topic requests %d replicas, but LogCluster %s has %d brokers: lower spec.replicas, "+
			"or raise the LogCluster's spec.brokers.", s.replicas(), s.cluster.Name,
		s.cluster.Spec.Brokers)
}

// invalidInitialReplicas refuses a Topic whose spec.initialReplicas cannot be used for a new
// partition: a CEL rule cannot read the number of brokers from the LogCluster. Entries of existing
// Partitions are not checked, because brokers may have been removed since they were used.
func (s *scope) invalidInitialReplicas() *metav1.Condition {
	var err error
	s.initial, err = metadata.InitialReplicas(&s.topic.Spec, s.cluster, s.cluster.Spec.Brokers,
		func(index int32) bool {
			return index < s.topic.Spec.Partitions && s.partitions[index] == nil &&
				s.placement.replicas[index] == nil
		})
	if err == nil {
		return nil
	}
	return refuse(v1alpha1.ReasonInvalidInitialReplicas,
		"The Topic cannot create its Partitions: %v. Change the entry of spec.initialReplicas, or "+
			"remove it, so that the operator chooses the replicas.", err)
}

// partitionNameTaken refuses the Topic until conflicting Partitions are deleted. If the Topic
// adopted them, its clients would read the records of another topic.
func (s *scope) partitionNameTaken() *metav1.Condition {
	if len(s.conflicting) == 0 {
		return nil
	}
	var names []string
	for _, partition := range s.conflicting {
		names = append(names, partition.Name)
	}
	return refuse(v1alpha1.ReasonPartitionNameTaken,
		"Partitions %s of an earlier Topic %s or of another LogCluster still exist. This Topic can "+
			"create its Partitions once those are deleted: wait until Kubernetes deletes them, or "+
			"delete those Partitions yourself.", strings.Join(names, " "), s.topic.Name)
}
