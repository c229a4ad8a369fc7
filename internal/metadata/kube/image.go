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

// resources are what the API server holds of a cluster, as the watches know it. They are read only.
type resources struct {
	cluster    *v1alpha1.LogCluster
	topics     []*v1alpha1.Topic
	partitions []*v1alpha1.Partition
}

// image makes an image of the resources and the brokers that are up. last, which may be nil, is the
// one before: a topic whose settings make no sense any more keeps those it had, since to leave it
// out would take its records away. The faults say what was kept or left out.
func (r resources) image(up map[int32]metadata.Broker, last *metadata.Image) (image *metadata.Image,
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
	named := r.named()
	// so that the same faults come in the same order, and are told once
	for _, name := range slices.Sorted(maps.Keys(named)) {
		t := named[name]
		resolved, err := r.topic(t, last)
		if err != nil {
			faults = append(faults, fmt.Errorf("topic %s: %w", t.Name, err))
		}
		if resolved == nil {
			continue
		}
		resolved.Partitions = imagePartitions(t, partitions[t.Name], up)
		// A new topic without partitions cannot be used yet, and clients that are told of it would
		// take it for broken. One that was there stays: that somebody deleted its Partitions is no
		// wish to delete its records.
		if len(resolved.Partitions) > 0 || last != nil && last.TopicByID(resolved.ID) != nil {
			topics = append(topics, resolved)
		}
	}
	brokers := slices.Collect(maps.Values(up))
	return metadata.NewImage(clusterID.String(), metadata.ResolveCleaner(r.cluster), brokers,
		topics).WithPolicies(r.cluster), faults
}

// names are the resources' names of all topics, by id.
func (r resources) names() map[metadata.ID]string {
	names := make(map[metadata.ID]string, len(r.topics))
	for _, t := range r.topics {
		if topicID, err := id(t.UID); err == nil {
			names[topicID] = t.Name
		}
	}
	return names
}

// named returns the cluster's topics that are not being deleted, one for each name that clients
// use: the oldest, as the operator sees it.
func (r resources) named() map[string]*v1alpha1.Topic {
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

// topic resolves a Topic, without its partitions. It may return both a topic, that of the last
// image, and an error.
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

// imagePartitions returns a topic's partitions by index, up to the last one that exists. One that
// is missing in between has no replicas: its neighbours must not go because of it. Those beyond the
// topic's number are of an earlier, wider topic, and wait.
func imagePartitions(t *v1alpha1.Topic, existing []*v1alpha1.Partition,
	up map[int32]metadata.Broker) []*metadata.Partition {
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
			fill(all[index], p, up)
		}
	}
	return all
}

// fill writes what a Partition says: its replicas, their assignments and ISR as they are, its
// leader only if it is up in the elected incarnation.
func fill(to *metadata.Partition, from *v1alpha1.Partition, up map[int32]metadata.Broker) {
	to.Replicas, to.Target = slices.Clone(from.Status.Replicas), slices.Clone(from.Spec.Replicas)
	if len(to.Replicas) == 0 { // the operator has not looked at it yet
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
	to.SetISR(from.Status.Leader, placed.ISR, up)
	for _, member := range placed.ISR {
		// See doc.go: only the incarnation that was elected leads.
		if broker, ok := up[member.Broker]; ok && member.Broker == from.Status.Leader &&
			member.Epoch == broker.Epoch {
			to.Leader = member.Broker
		}
	}
}

// id is a resource's uid as Kafka's ids are: the same 16 bytes.
func id(uid types.UID) (metadata.ID, error) {
	parsed, err := uuid.Parse(string(uid))
	if err != nil {
		return metadata.ID{}, fmt.Errorf("uid %q: %w", uid, err)
	}
	return metadata.ID(parsed), nil
}
