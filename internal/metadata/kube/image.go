package kube

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// resources are the cached resources of a cluster. They are read-only.
type resources struct {
	cluster    *v1alpha1.LogCluster
	topics     []*v1alpha1.Topic
	partitions []*v1alpha1.Partition
}

// image builds an image from the resources and the brokers that are alive. Parameter last is the
// previous image and may be nil. If a topic's settings have become invalid, the topic keeps the
// settings that it has in last, because brokers delete the records of a topic that is missing from
// the image. Each fault names a topic that kept its settings or was omitted.
func (r resources) image(alive map[int32]metadata.Broker,
	last *metadata.Image) (image *metadata.Image,
	faults []error) {
	clusterID, err := id(r.cluster.UID)
	if err != nil {
		return nil, []error{fmt.Errorf("read LogCluster %s: %w", r.cluster.Name, err)}
	}
	partitions := map[string][]*v1alpha1.Partition{}
	for _, p := range r.partitions {
		if p.Spec.Cluster == r.cluster.Name && p.DeletionTimestamp.IsZero() {
			partitions[p.Spec.Topic] = append(partitions[p.Spec.Topic], p)
		}
	}
	var topics []*metadata.Topic
	byName := r.byKafkaName()
	// The names are sorted, so that equal faults have equal text, which is logged once.
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t := byName[name]
		resolved, err := r.topic(t, last)
		if err != nil {
			faults = append(faults, fmt.Errorf("topic %s: %w", t.Name, err))
		}
		if resolved == nil {
			continue
		}
		resolved.Partitions = imagePartitions(t, partitions[t.Name], alive)
		// A new topic without partitions is omitted: it cannot be used yet, and clients would treat
		// it as broken. A topic of the last image is kept: if its Partitions are deleted, its
		// records must not be.
		if len(resolved.Partitions) > 0 || last != nil && last.TopicByID(resolved.ID) != nil {
			topics = append(topics, resolved)
		}
	}
	brokers := slices.Collect(maps.Values(alive))
	return metadata.NewImage(clusterID.String(), metadata.ResolveCleaner(r.cluster), brokers,
		topics).WithPolicies(r.cluster), faults
}

// resourceNames returns the names of all Topic resources by topic id.
func (r resources) resourceNames() map[metadata.ID]string {
	names := make(map[metadata.ID]string, len(r.topics))
	for _, t := range r.topics {
		if topicID, err := id(t.UID); err == nil {
			names[topicID] = t.Name
		}
	}
	return names
}

// byKafkaName returns the cluster's Topics that are not being deleted, by Kafka name. If several
// Topics have the same Kafka name, it contains the oldest one, as in the operator.
func (r resources) byKafkaName() map[string]*v1alpha1.Topic {
	byName := map[string]*v1alpha1.Topic{}
	for _, t := range r.topics {
		if t.Spec.Cluster != r.cluster.Name || !t.DeletionTimestamp.IsZero() {
			continue
		}
		if first := byName[t.KafkaName()]; first == nil || t.OlderThan(first) {
			byName[t.KafkaName()] = t
		}
	}
	return byName
}

// topic resolves a Topic without its partitions. If its settings are invalid, it returns the topic
// of the last image together with the error.
func (r resources) topic(t *v1alpha1.Topic, last *metadata.Image) (*metadata.Topic, error) {
	topicID, err := id(t.UID)
	if err != nil {
		return nil, err
	}
	resolved, err := metadata.ResolveTopic(t, r.cluster)
	if err == nil {
		resolved.ID = topicID
		return resolved, nil
	}
	if last != nil {
		if before := last.TopicByID(topicID); before != nil {
			kept := *before
			kept.CleanNow = t.CleanNow()
			return &kept, err
		}
	}
	return nil, err
}

// imagePartitions returns a topic's partitions by index, up to the highest index that exists. If a
// Partition with a lower index is missing, the result contains a partition without replicas in its
// place, so that the partitions after it are kept. Partitions beyond the topic's number of
// partitions belong to an earlier topic with more partitions and are ignored.
func imagePartitions(t *v1alpha1.Topic, existing []*v1alpha1.Partition,
	alive map[int32]metadata.Broker) []*metadata.Partition {
	byIndex := map[int32]*v1alpha1.Partition{}
	count := int32(0)
	for _, p := range existing {
		if p.Spec.Index >= 0 && p.Spec.Index < t.Spec.Partitions {
			byIndex[p.Spec.Index] = p
			count = max(count, p.Spec.Index+1)
		}
	}
	all := make([]*metadata.Partition, count)
	for index := range all {
		all[index] = &metadata.Partition{Index: int32(index), Leader: metadata.NoBroker}
		if p := byIndex[int32(index)]; p != nil {
			fillPartition(all[index], p, alive)
		}
	}
	return all
}

// fillPartition copies replicas, their incarnation ids and the ISR from a Partition, and its leader
// if the elected broker epoch is alive.
func fillPartition(to *metadata.Partition, from *v1alpha1.Partition,
	alive map[int32]metadata.Broker) {
	to.Replicas, to.Target = slices.Clone(from.Status.Replicas), slices.Clone(from.Spec.Replicas)
	if len(to.Replicas) == 0 { // the operator has not reconciled the Partition yet
		to.Replicas = slices.Clone(from.Spec.Replicas)
	}
	if slices.Equal(to.Replicas, to.Target) {
		to.Target = nil
	}
	for _, assigned := range from.Status.Assignments {
		if at := slices.Index(to.Replicas, assigned.Broker); at >= 0 {
			if to.ReplicaIncarnations == nil {
				to.ReplicaIncarnations = make([]string, len(to.Replicas))
			}
			to.ReplicaIncarnations[at] = assigned.ID
		}
	}
	to.LeaderEpoch, to.UnprovenEpoch = from.Status.LeaderEpoch, from.Status.UnprovenEpoch
	placed := metadata.PlacedPartition(from)
	to.SetISR(from.Status.Leader, placed.ISR, alive)
	for _, member := range placed.ISR {
		// A broker leads only in the broker epoch in which it was elected; see doc.go.
		if broker, ok := alive[member.Broker]; ok && member.Broker == from.Status.Leader &&
			member.Epoch == broker.Epoch {
			to.Leader = member.Broker
		}
	}
}

// id converts a resource's uid to a Kafka topic id, which consists of the same 16 bytes (ADR 0002).
func id(uid types.UID) (metadata.ID, error) {
	parsed, err := uuid.Parse(string(uid))
	if err != nil {
		return metadata.ID{}, fmt.Errorf("parse uid %q: %w", uid, err)
	}
	return metadata.ID(parsed), nil
}
