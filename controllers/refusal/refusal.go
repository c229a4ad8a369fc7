// Package refusal decides which Topics the operator refuses. The assignment controller does not
// assign partitions of a refused Topic, and the topic controller writes the reason into the Topic's
// status. All functions of the package are pure.
package refusal

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/metadata"
)

// Input contains everything on which the refusal of a Topic depends.
type Input struct {
	Topic   *v1alpha1.Topic
	Cluster *v1alpha1.LogCluster // nil if the LogCluster does not exist
	// Older is an older Topic of the LogCluster with the same Kafka name, or nil.
	Older *v1alpha1.Topic
	// Colliding is an older Topic of the LogCluster whose Kafka name differs only in '.' and '_', or
	// nil.
	Colliding *v1alpha1.Topic
	// IsNew reports whether a partition was never assigned.
	IsNew func(partition int32) bool
}

// Check returns a condition with the reason why the Topic cannot be reconciled, or nil. If there
// are several reasons, it returns the most basic one. The order also matters because the checks
// after clusterNotFound require a cluster.
func Check(in Input) *metav1.Condition {
	for _, check := range []func() *metav1.Condition{
		in.deleting, in.clusterNotFound, in.nameTaken, in.nameCollides,
		in.invalidSettings, in.notEnoughBrokers,
		in.invalidInitialReplicas, in.volumesFull,
	} {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// refuse returns condition Ready with status False. Its message is made from format and values.
func refuse(reason, format string, values ...any) *metav1.Condition {
	condition := conditions.NotReady(reason, fmt.Sprintf(format, values...))
	return &condition
}

func (in Input) deleting() *metav1.Condition {
	if in.Topic.DeletionTimestamp.IsZero() {
		return nil
	}
	return refuse(v1alpha1.ReasonDeleting,
		"The Topic is being deleted and waits for its finalizers %v.", in.Topic.Finalizers)
}

func (in Input) clusterNotFound() *metav1.Condition {
	if in.Cluster != nil {
		return nil
	}
	return refuse(v1alpha1.ReasonClusterNotFound,
		"Namespace %s has no LogCluster %s: create the LogCluster, or delete the Topic and create "+
			"it with the name of another LogCluster in spec.cluster.",
		in.Topic.Namespace, in.Topic.Spec.Cluster)
}

// nameTaken refuses a Topic if an older Topic has the same Kafka name. This prevents a new Topic
// from taking the name away from the oldest one.
func (in Input) nameTaken() *metav1.Condition {
	if in.Older == nil {
		return nil
	}
	return refuse(v1alpha1.ReasonTopicNameTaken,
		"The older Topic %s of LogCluster %s has the same Kafka name %s: delete one of these two "+
			"Topics.", in.Older.Name, in.Topic.Spec.Cluster, in.Topic.KafkaName())
}

// nameCollides refuses a new Topic if Kafka would refuse it because of its name. The reason is that
// tools that replace the dots in metric names would confuse the two topics. A Topic that already
// has partitions is not refused.
func (in Input) nameCollides() *metav1.Condition {
	if in.Colliding == nil || !in.IsNew(0) {
		return nil
	}
	return refuse(v1alpha1.ReasonTopicNameCollides,
		"The Kafka name %s collides with %s of the older Topic %s of LogCluster %s, as '.' and '_' "+
			"are the same in names of metrics: delete one of these two Topics, or choose another name.",
		in.Topic.KafkaName(), in.Colliding.KafkaName(), in.Colliding.Name, in.Topic.Spec.Cluster)
}

// invalidSettings refuses a Topic whose settings contradict the cluster's defaults. A CEL rule
// cannot detect the contradiction, because it can read only one resource.
func (in Input) invalidSettings() *metav1.Condition {
	_, err := metadata.SettingsOf(in.Topic, in.Cluster)
	if err == nil {
		err = metadata.CheckReplicas(in.Topic.Spec.TopicSettings, in.Cluster)
	}
	if err == nil {
		return nil
	}
	return refuse(v1alpha1.ReasonInvalidSettings,
		"The settings of the Topic and the topicDefaults of LogCluster %s contradict each other: %v.",
		in.Cluster.Name, err)
}

// notEnoughBrokers refuses a Topic with more replicas than the LogCluster has brokers. It uses the
// number in the LogCluster's spec, because a broker that is down is expected to return.
func (in Input) notEnoughBrokers() *metav1.Condition {
	replicas := metadata.Replicas(in.Topic.Spec.TopicSettings, in.Cluster)
	if replicas <= int(in.Cluster.Spec.Brokers) {
		return nil
	}
	return refuse(v1alpha1.ReasonNotEnoughBrokers,
		"The Topic requests %d replicas, but LogCluster %s has %d brokers: lower spec.replicas, "+
			"or raise the LogCluster's spec.brokers.", replicas, in.Cluster.Name,
		in.Cluster.Spec.Brokers)
}

// invalidInitialReplicas refuses a Topic whose spec.initialReplicas cannot be used for a new
// partition. A CEL rule cannot check this, because it cannot read the number of brokers from the
// LogCluster. Entries of existing partitions are not checked, because brokers may have been removed
// since the entries were used.
func (in Input) invalidInitialReplicas() *metav1.Condition {
	_, err := metadata.InitialReplicas(&in.Topic.Spec, in.Cluster, in.Cluster.Spec.Brokers,
		func(index int32) bool { return index < in.Topic.Spec.Partitions && in.IsNew(index) })
	if err == nil {
		return nil
	}
	return refuse(v1alpha1.ReasonInvalidInitialReplicas,
		"The partitions of the Topic cannot be assigned: %v. Change the entry of "+
			"spec.initialReplicas, or remove it, so that the operator chooses the replicas.", err)
}

// volumesFull refuses a Topic with new partitions while the volumes of too many brokers are almost
// full. The new partitions are assigned when space becomes free.
func (in Input) volumesFull() *metav1.Condition {
	full := len(in.Cluster.FullBrokers())
	replicas := metadata.Replicas(in.Topic.Spec.TopicSettings, in.Cluster)
	if full == 0 || metadata.InternalTopic(in.Topic.KafkaName()) ||
		replicas <= int(in.Cluster.Spec.Brokers)-full {
		return nil
	}
	chosen, err := metadata.InitialReplicas(&in.Topic.Spec, in.Cluster, in.Cluster.Spec.Brokers,
		in.IsNew)
	if err != nil {
		return nil // reported by invalidInitialReplicas
	}
	for index := range in.Topic.Spec.Partitions {
		if in.IsNew(index) && chosen[index] == nil {
			return refuse(v1alpha1.ReasonStoragePressure,
				"The new partitions need %d replicas, and the volumes of %d of %d brokers of "+
					"LogCluster %s are almost full: see its condition StoragePressure.",
				replicas, full, in.Cluster.Spec.Brokers, in.Cluster.Name)
		}
	}
	return nil
}

// Reassignments returns the replicas that a Topic's annotation heartwood.dev/reassign requests, by
// partition. The error describes why the annotation cannot be used.
func Reassignments(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (map[int32][]int32,
	error) {
	requested, err := topic.Reassignments()
	if err != nil {
		return nil, err
	}
	replicas := metadata.Replicas(topic.Spec.TopicSettings, cluster)
	for index, ids := range requested {
		switch {
		case index >= topic.Spec.Partitions:
			return nil, fmt.Errorf("the Topic has no partition %d", index)
		case len(ids) != replicas:
			return nil, fmt.Errorf("partition %d has %d brokers, but spec.replicas is %d", index,
				len(ids), replicas)
		}
		for _, id := range ids {
			if id >= cluster.Spec.Brokers {
				return nil, fmt.Errorf("partition %d: broker %d does not exist", index, id)
			}
		}
	}
	return requested, nil
}
