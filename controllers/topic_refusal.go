package controllers

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// refuse returns why the topic cannot be had as it is asked for, the most basic reason first; nil
// if it can. The order matters beyond that: the checks after clusterNotFound use s.cluster.
func (s *topicScope) refuse() *metav1.Condition {
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

// refused is condition Ready with status False; format and values make its message.
func refused(reason, format string, values ...any) *metav1.Condition {
	condition := notReady(reason, fmt.Sprintf(format, values...))
	return &condition
}

func (s *topicScope) deleting() *metav1.Condition {
	if s.topic.DeletionTimestamp.IsZero() {
		return nil
	}
	return refused(v1alpha1.ReasonDeleting, "the Topic is being deleted; its finalizers are %v",
		s.topic.Finalizers)
}

func (s *topicScope) clusterNotFound() *metav1.Condition {
	if s.cluster != nil {
		return nil
	}
	return refused(v1alpha1.ReasonClusterNotFound,
		"there is no LogCluster %s in namespace %s: make it, or make the Topic again with "+
			"another spec.cluster", s.topic.Spec.Cluster, s.topic.Namespace)
}

// nameTaken gives a name to the oldest Topic that claims it, so that a later one never takes it
// away.
func (s *topicScope) nameTaken() *metav1.Condition {
	for i := range s.sameName {
		if s.sameName[i].OlderThan(s.topic) {
			return refused(v1alpha1.ReasonTopicNameTaken,
				"Topic %s of LogCluster %s is older and is called %s, too: delete one of them",
				s.sameName[i].Name, s.topic.Spec.Cluster, s.topic.KafkaName())
		}
	}
	return nil
}

// invalidSettings finds what no CEL rule can see: settings that contradict the cluster's defaults.
func (s *topicScope) invalidSettings() *metav1.Condition {
	if _, err := metadata.ResolveSettings(s.topic.Spec.TopicSettings, s.cluster); err != nil {
		return refused(v1alpha1.ReasonInvalidSettings, "%v", err)
	}
	if err := metadata.CheckReplicas(s.topic.Spec.TopicSettings, s.cluster); err != nil {
		return refused(v1alpha1.ReasonInvalidSettings, "%v", err)
	}
	return nil
}

// notEnoughBrokers counts the brokers that the LogCluster asks for, not those that are up: those
// that are down come back.
func (s *topicScope) notEnoughBrokers() *metav1.Condition {
	if s.replicas() <= int(s.cluster.Spec.Brokers) {
		return nil
	}
	return refused(v1alpha1.ReasonNotEnoughBrokers,
		"%d replicas need as many brokers, and LogCluster %s has %d: lower spec.replicas, "+
			"or raise its spec.brokers", s.replicas(), s.cluster.Name, s.cluster.Spec.Brokers)
}

// partitionNameTaken waits for strangers to go: to adopt them would lead clients to another topic's
// records.
func (s *topicScope) partitionNameTaken() *metav1.Condition {
	if len(s.strangers) == 0 {
		return nil
	}
	var names []string
	for _, partition := range s.strangers {
		names = append(names, partition.Name)
	}
	return refused(v1alpha1.ReasonPartitionNameTaken,
		"Partitions of an earlier Topic %s are in the way, and go with it or must be "+
			"deleted: %s", s.topic.Name, strings.Join(names, " "))
}

// replicas is how many brokers hold each partition. It needs a cluster.
func (s *topicScope) replicas() int {
	return metadata.Replicas(s.topic.Spec.TopicSettings,
		s.cluster)
}
