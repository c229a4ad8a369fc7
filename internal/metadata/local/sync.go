package local

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// ErrBrokersInUse means that fewer brokers would remain than a partition has replicas.
var ErrBrokersInUse = errors.New(
	"brokers cannot be removed, because too few would remain for the replicas of some topics",
)

// Manifests contains the manifests for Apply. If the LogCluster or a topic is kept, its manifest
// cannot be read at the moment, and it does not change.
type Manifests struct {
	Cluster     *v1alpha1.LogCluster
	KeepCluster bool // true if the current LogCluster is kept, instead of Cluster
	Brokers     int
	Topics      []*v1alpha1.Topic
	KeepTopics  []string // Kafka names of the topics that are kept
}

// sync applies manifests. Each fault is an error in one topic, which is then left unchanged or not
// created. If err is not nil, the caller must discard the document.
func (d *document) sync(m *Manifests) (faults []error, err error) {
	d.syncCluster(m)
	d.described = map[string]bool{}
	for _, t := range m.Topics {
		d.described[t.KafkaName()] = true
	}
	for index, t := range slices.Backward(d.Topics) {
		name := t.kafkaName()
		if t.Origin == originManifest && !d.described[name] && !slices.Contains(m.KeepTopics, name) {
			d.remove(index)
		}
	}
	if m.Brokers < 1 {
		return nil, fmt.Errorf("number of brokers is %d, must be at least 1", m.Brokers)
	}
	before := d.running()
	d.Brokers = m.Brokers
	d.Draining = before // decide lowers Draining later
	if d.Draining <= d.Brokers {
		d.Draining = 0
	}
	for _, t := range m.Topics {
		if err := d.put(t.DeepCopy(), originManifest); err != nil {
			faults = append(faults, &TopicFault{t.Name, err})
		}
	}
	d.giveUp(m.Cluster)
	if err := d.drain(); err != nil {
		return nil, err
	}
	// Topics whose manifest is missing or invalid must also be valid with the new defaults.
	if err := d.check(); err != nil {
		return nil, errors.Join(append(faults, err)...)
	}
	return faults, nil
}

// syncCluster replaces the LogCluster with the one in the manifests. If they contain none, a
// LogCluster that admin clients have created remains, with the new number of brokers.
func (d *document) syncCluster(m *Manifests) {
	switch {
	case m.KeepCluster:
	case m.Cluster != nil:
		d.Cluster = &cluster{Name: m.Cluster.Name, Spec: *m.Cluster.Spec.DeepCopy()}
	case d.Cluster != nil && d.Cluster.Origin == originKafka:
		kept := *d.Cluster
		kept.Spec.Brokers = int32(m.Brokers)
		d.Cluster = &kept
	default:
		d.Cluster = nil
	}
}

// drain sets targets for replicas on removed brokers, and applies the current default number of
// replicas to topics that use the default. It fails if a topic has more replicas than brokers would
// remain, because only the user may decide to reduce the number of replicas.
func (d *document) drain() error {
	var topics []string
	needed := 0
	for _, t := range d.Topics {
		plan := d.plannedOf(t)
		if d.fitReplicas(t, plan) != nil {
			topics = append(topics, t.kafkaName())
			needed = max(needed, metadata.Replicas(t.Spec.TopicSettings, d.resource()))
			continue
		}
		d.apply(t, plan)
	}
	if len(topics) == 0 {
		return nil
	}
	return fmt.Errorf("%w: topics %s need %d brokers", ErrBrokersInUse, strings.Join(topics, ", "),
		needed)
}

// put creates or updates a topic from its resource. An existing topic keeps its id and partitions,
// and its origin is set to origin, so that a manifest can take over a topic that was created
// through Kafka. If put fails, the document is unchanged.
func (d *document) put(resource *v1alpha1.Topic, origin string) error {
	if err := metadata.CheckTopicName(resource.KafkaName()); err != nil {
		return err
	}
	if _, err := metadata.ResolveTopic(resource, d.resource()); err != nil {
		return err
	}
	if err := metadata.CheckReplicas(resource.Spec.TopicSettings, d.resource()); err != nil {
		return err
	}
	index, exists := d.find(resource.KafkaName())
	if !exists {
		if err := metadata.CheckCollision(resource.KafkaName(), d.names()); err != nil {
			return err
		}
	}
	var before *v1alpha1.Topic
	// If a manifest takes over the topic, it is not compared with the previous fields.
	if exists && d.Topics[index].Origin == origin {
		before = d.Topics[index].resource()
	}
	if err := metadata.CheckInternal(resource, before); err != nil {
		return err
	}
	switch {
	case resource.Spec.Partitions != 0:
	case exists: // the default may have changed since the topic was created
		resource.Spec.Partitions = d.Topics[index].Spec.Partitions
	default:
		resource.Spec.Partitions = metadata.NewTopicPartitions(resource.KafkaName(), d.resource())
	}
	changed := topic{Name: resource.Name, ID: metadata.NewID().String(), Origin: origin,
		Spec: resource.Spec, CleanNow: resource.CleanNow()}
	var plan []planned
	if exists {
		changed.ID, plan = d.Topics[index].ID, d.plannedOf(d.Topics[index])
	}
	plan, err := d.grow(&changed, plan)
	if err != nil {
		return err
	}
	if err := d.fitReplicas(changed, plan); err != nil {
		return err
	}
	if exists {
		d.Topics[index] = changed
	} else {
		d.Topics = slices.Insert(d.Topics, index, changed)
	}
	d.apply(changed, plan)
	return nil
}

// names returns the topics' Kafka names.
func (d *document) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range d.Topics {
			if !yield(d.Topics[i].kafkaName()) {
				return
			}
		}
	}
}

// remove deletes the topic with the given index. The topic's partitions are retained, unless its
// reclaim policy is to delete them.
func (d *document) remove(index int) {
	t := d.Topics[index]
	kafkaName := t.kafkaName()
	d.Topics = slices.Delete(d.Topics, index, index+1)
	// An earlier topic with the same name may have had more partitions, which are still retained.
	for _, key := range d.keysOf(kafkaName) {
		entry, _ := d.set.Get(key)
		switch {
		case isRemoving(entry):
		case t.Spec.ReclaimPolicy == v1alpha1.ReclaimDelete:
			d.removePartition(key)
		case !isRetained(entry):
			d.assignPartition(key, partitionset.Assignment{Replicas: entry.Placed().Replicas,
				Tag: t.tag(), Reclaim: partitionset.Retained})
		}
	}
}

// TopicFault is an error in one topic. Its text begins with the path of the field. Sync returns
// joined TopicFaults; the caller adds the name of the file that contains the topic.
type TopicFault struct {
	Resource string // value of metadata.name of the Topic
	Err      error
}

func (f *TopicFault) Error() string { return f.Err.Error() + " (Topic/" + f.Resource + ")" }
func (f *TopicFault) Unwrap() error { return f.Err }
