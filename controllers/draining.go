package controllers

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// draining is what is still on brokers that are to go.
type draining struct {
	replicas   int32    // of partitions, where they are or are to be
	partitions []string // the first of them
	brokers    int32    // how many must run until it is done: one more than the highest id
	tooMany    []string // Topics with more replicas than would be left
}

// drain looks at the partitions of a LogCluster's Topics. Those that outlived their Topic keep
// nobody: what they remember lies on a volume that stays, and who holds nothing else may go.
func drain(cluster *v1alpha1.LogCluster, topics []v1alpha1.Topic,
	partitions []v1alpha1.Partition) draining {
	d := draining{brokers: cluster.Spec.Brokers}
	sizes := map[string]int32{}
	for i := range topics {
		sizes[topics[i].Name] = topics[i].Spec.Partitions
		if metadata.Replicas(topics[i].Spec.TopicSettings, cluster) > int(cluster.Spec.Brokers) {
			d.tooMany = append(d.tooMany, topics[i].Name)
		}
	}
	slices.Sort(d.tooMany)
	for i := range partitions {
		partition, held := &partitions[i], int32(0)
		if partition.Spec.Index >= sizes[partition.Spec.Topic] {
			continue
		}
		for _, id := range named(partition) {
			if id >= cluster.Spec.Brokers {
				held++
				d.brokers = max(d.brokers, id+1)
			}
		}
		if held > 0 {
			d.partitions = append(d.partitions, partition.Name)
		}
		d.replicas += held
	}
	slices.Sort(d.partitions)
	return d
}

func (s *logClusterScope) draining() draining { return drain(s.cluster, s.topics, s.partitions) }

// scaled is condition Scaled.
func (s *logClusterScope) scaled(d draining) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionScaled, Status: metav1.ConditionFalse}
	running := int32(0)
	if replicas := s.brokers.Spec.Replicas; replicas != nil {
		running = *replicas
	}
	switch {
	case d.replicas > 0 && len(d.tooMany) > 0:
		condition.Reason = v1alpha1.ReasonReplicasDoNotFit
		condition.Message = fmt.Sprintf(
			"with %d brokers there are too few for the replicas of %s: lower their spec.replicas, or raise spec.brokers; "+
				"no broker goes meanwhile",
			s.cluster.Spec.Brokers,
			first(d.tooMany),
		)
	case d.replicas == 0 && running > s.cluster.Spec.Brokers:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("brokers from id %d on hold nothing any more, and go",
			s.cluster.Spec.Brokers)
	case d.replicas > 0:
		condition.Reason = v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf(
			"brokers from id %d on go once they hold nothing; %d replicas move first, of partitions %s",
			s.cluster.Spec.Brokers,
			d.replicas,
			first(d.partitions),
		)
	case running < s.cluster.Spec.Brokers:
		condition.Reason = v1alpha1.ReasonBrokersNotReady
		condition.Message = fmt.Sprintf("%d of %d brokers are asked for", running,
			s.cluster.Spec.Brokers)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonScaled
		condition.Message = fmt.Sprintf("there are %d brokers", running)
	}
	return condition
}

// first names the first of many.
func first(names []string) string {
	if len(names) > namesMax {
		return strings.Join(names[:namesMax], " ") + " ..."
	}
	return strings.Join(names, " ")
}
