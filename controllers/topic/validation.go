package topic

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/metadata"
)

// validate returns why the Topic cannot be reconciled, the most basic reason first, or nil. The
// order also matters because the checks after clusterNotFound require a cluster.
func (s *scope) validate() *metav1.Condition {
	for _, check := range []func() *metav1.Condition{
		s.deleting, s.clusterNotFound, s.nameTaken, s.invalidSettings, s.notEnoughBrokers,
		s.partitionNameTaken,
	} {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// refuse returns condition Ready with status False; format and values make its message.
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
		"Namespace %s has no LogCluster %s: create it, or create the Topic again with another "+
			"spec.cluster.", s.topic.Namespace, s.topic.Spec.Cluster)
}

// nameTaken gives a Kafka name to the oldest Topic that claims it, so that a later one never takes
// it away.
func (s *scope) nameTaken() *metav1.Condition {
	for i := range s.sameName {
		if s.sameName[i].OlderThan(s.topic) {
			return refuse(v1alpha1.ReasonTopicNameTaken,
				"The older Topic %s of LogCluster %s has the same Kafka name %s: delete one of "+
					"them.", s.sameName[i].Name, s.topic.Spec.Cluster, s.topic.KafkaName())
		}
	}
	return nil
}

// invalidSettings finds errors that no CEL rule can detect: settings that contradict the cluster's
// defaults.
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

// notEnoughBrokers counts the brokers of the LogCluster's spec, not those that are up: a broker
// that is down is expected to return.
func (s *scope) notEnoughBrokers() *metav1.Condition {
	if s.replicas() <= int(s.cluster.Spec.Brokers) {
		return nil
	}
	return refuse(v1alpha1.ReasonNotEnoughBrokers,
		"The Topic requests %d replicas, and LogCluster %s has %d brokers: lower spec.replicas, "+
			"or raise the LogCluster's spec.brokers.", s.replicas(), s.cluster.Name,
		s.cluster.Spec.Brokers)
}

// partitionNameTaken waits until conflicting Partitions are deleted. Adopting them would lead
// clients to the records of another topic.
func (s *scope) partitionNameTaken() *metav1.Condition {
	if len(s.conflicting) == 0 {
		return nil
	}
	var names []string
	for _, partition := range s.conflicting {
		names = append(names, partition.Name)
	}
	return refuse(v1alpha1.ReasonPartitionNameTaken,
		"Partitions of an earlier Topic %s still exist: wait until they are deleted with it, or "+
			"delete them: %s.", s.topic.Name, strings.Join(names, " "))
}
