package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// ErrBrokersInUse is returned if there would be fewer brokers than replicas of a partition.
var ErrBrokersInUse = errors.New(
	"brokers cannot be removed while topics have more replicas than brokers would remain",
)

// manifests is the content of manifests.
type manifests struct {
	cluster *v1alpha1.LogCluster
	brokers int
	topics  []*v1alpha1.Topic
}

// sync applies manifests. faults concern single topics, which stay unchanged or are not created.
// After err the document must be discarded.
func (d *document) sync(m manifests) (faults []error, err error) {
	d.Cluster = nil
	if m.cluster != nil {
		d.Cluster = &cluster{Name: m.cluster.Name, Spec: *m.cluster.Spec.DeepCopy()}
	}
	present := map[string]bool{}
	for _, t := range m.topics {
		present[t.KafkaName()] = true
	}
	for _, t := range slices.Clone(d.Topics) {
		if t.Origin == originManifest && !present[t.kafkaName()] {
			d.remove(t.kafkaName())
		}
	}
	if m.brokers < 1 {
		return nil, fmt.Errorf("number of brokers is %d, must be at least 1", m.brokers)
	}
	before := d.running()
	d.Brokers = m.brokers
	d.Draining = before // decide lowers it
	if d.Draining <= d.Brokers {
		d.Draining = 0
	}
	for _, t := range m.topics {
		if err := d.put(t.DeepCopy(), originManifest); err != nil {
			faults = append(faults, &TopicFault{t.Name, err})
		}
	}
	if err := d.drain(); err != nil {
		return nil, err
	}
	// Topics without a valid manifest must be valid with the new defaults, too.
	if err := d.check(); err != nil {
		return nil, errors.Join(append(faults, err)...)
	}
	return faults, nil
}

// drain sets targets for replicas on removed brokers, and adapts all topics to the current default
// number of replicas. It fails if a topic has more replicas than brokers would remain, because
// reducing the number of replicas is a decision of the user.
func (d *document) drain() error {
	var topics []string
	needed := 0
	for i := range d.Topics {
		if t := &d.Topics[i]; d.fitReplicas(t) != nil {
			topics = append(topics, t.kafkaName())
			needed = max(needed, metadata.Replicas(t.Spec.TopicSettings, d.resource()))
		}
	}
	if len(topics) == 0 {
		return nil
	}
	return fmt.Errorf("%w: topics %s need %d brokers", ErrBrokersInUse, strings.Join(topics, ", "),
		needed)
}

// fitReplicas sets targets so that the partitions of a topic have the requested number of replicas
// on remaining brokers. It fails if there are too few brokers.
func (d *document) fitReplicas(t *topic) error {
	replicas := metadata.Replicas(t.Spec.TopicSettings, d.resource())
	isFitted := func(ids []int32) bool {
		return len(ids) == replicas &&
			int(slices.Max(ids)) < d.Brokers
	}
	assignments := make([][]int32, len(t.Partitions))
	fits := true
	for i, p := range t.Partitions {
		assignments[i] = p.targetReplicas()
		fits = fits && isFitted(assignments[i])
	}
	if fits {
		return nil
	}
	fitted, err := placement.Fit(d.placementBrokers(), d.load(), assignments, replicas)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
	}
	t.Partitions = slices.Clone(t.Partitions)
	for i, ids := range fitted {
		switch p := &t.Partitions[i]; {
		case slices.Equal(ids, assignments[i]):
		case p.LeaderEpoch == 0: // no replica has records yet
			p.Replicas, p.Target, p.ReplicaIncarnations = ids, nil, nil
		default:
			p.Target = ids
		}
	}
	return nil
}

// targetReplicas returns the target, or the replicas without a target.
func (p partition) targetReplicas() []int32 {
	if len(p.Target) > 0 {
		return p.Target
	}
	return p.Replicas
}

// put creates or changes a topic according to its resource. A changed topic keeps its id and
// partitions. It gets the given origin, so a manifest takes over a topic that was created through
// Kafka. On an error the document is unchanged.
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
	if resource.Spec.Partitions == 0 {
		resource.Spec.Partitions = 1 // default of the schema
	}
	changed := topic{Name: resource.Name, ID: metadata.NewID().String(), Origin: origin,
		Spec: resource.Spec, CleanNow: resource.CleanNow()}
	at, exists := d.find(resource.KafkaName())
	if exists {
		changed.ID, changed.Partitions = d.Topics[at].ID, d.Topics[at].Partitions
	}
	if err := d.grow(&changed); err != nil {
		return err
	}
	if err := d.fitReplicas(&changed); err != nil {
		return err
	}
	if exists {
		d.Topics[at] = changed
	} else {
		d.Topics = slices.Insert(d.Topics, at, changed)
	}
	return nil
}

// grow assigns the partitions that a topic lacks to brokers, as placement.Assign chooses. Existing
// partitions keep their brokers. It fails with metadata.ErrInvalidPartitions when the topic would
// shrink, with ErrInvalidReplication when there are too few brokers.
func (d *document) grow(t *topic) error {
	existing := len(t.Partitions)
	missing := int(t.Spec.Partitions) - existing
	if missing < 0 {
		fault := field.Invalid(field.NewPath("spec", "partitions"), t.Spec.Partitions,
			fmt.Sprintf("the topic has %d partitions; they cannot shrink, as records would be lost",
				existing))
		return fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	// created through Kafka, and now in a manifest
	if missing > 0 && existing > 0 && metadata.InternalTopic(t.kafkaName()) {
		fault := field.Invalid(
			field.NewPath("spec", "partitions"),
			t.Spec.Partitions,
			fmt.Sprintf("the topic has %d partitions; another number would assign groups to other "+
				"partitions, which do not have their offsets", existing),
		)
		return fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	replicas := metadata.Replicas(t.Spec.TopicSettings, d.resource())
	placed, err := placement.Assign(d.placementBrokers(), d.load(), existing, missing, replicas)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
	}
	t.Partitions = slices.Clone(t.Partitions)
	for _, replicas := range placed {
		t.Partitions = append(t.Partitions,
			partition{Replicas: replicas, leader: metadata.NoBroker})
	}
	d.adoptRetained(t, existing)
	return nil
}

// adoptRetained lets the partitions from index first on adopt the retained data of a deleted topic
// of the same name, if a broker that was in sync still exists. A topic with fewer partitions leaves
// the remaining entries for when it grows. Entries whose brokers no longer exist are dropped: the
// partition starts empty on other brokers, and must not have two sets of data.
func (d *document) adoptRetained(t *topic, first int) {
	retained := d.Retained[t.kafkaName()]
	for i := first; i < min(len(t.Partitions), len(retained)); i++ {
		if p, ok := retained[i].onBrokers(d.running()); ok {
			t.Partitions[i] = p
		}
	}
	if len(t.Partitions) >= len(retained) {
		delete(d.Retained, t.kafkaName())
	}
}

// onBrokers returns a retained partition restricted to brokers 0 to brokers-1; ok is false if none
// of them was in sync.
func (p partition) onBrokers(brokers int) (_ partition, ok bool) {
	removed := func(id int32) bool { return int(id) >= brokers }
	p.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), removed)
	p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(m member) bool { return removed(m.Broker) })
	p.ReplicaIncarnations = maps.Clone(p.ReplicaIncarnations)
	maps.DeleteFunc(p.ReplicaIncarnations, func(id int32, _ string) bool { return removed(id) })
	p.Target, p.leader = nil, metadata.NoBroker
	return p, p.check(brokers) == nil
}

// remove deletes a topic and records its retained data. It reports whether the topic existed.
func (d *document) remove(kafkaName string) bool {
	at, exists := d.find(kafkaName)
	if !exists {
		return false
	}
	t := d.Topics[at]
	d.Topics = slices.Delete(d.Topics, at, at+1)
	if t.Spec.ReclaimPolicy == v1alpha1.ReclaimDelete {
		delete(d.Retained, kafkaName)
		return true
	}
	assignments := slices.Clone(t.Partitions)
	if before := d.Retained[kafkaName]; len(before) > len(assignments) {
		// retained from a topic of the name with more partitions
		assignments = append(assignments, before[len(assignments):]...)
	}
	d.Retained[kafkaName] = assignments
	return true
}

// placementBrokers returns all brokers, whether they are up or not: the placement of topics must
// not depend on that.
func (d *document) placementBrokers() []placement.Broker {
	brokers := make([]placement.Broker, d.Brokers)
	for i := range brokers {
		brokers[i].ID = int32(i)
		if len(d.Racks) > 0 {
			brokers[i].Rack = d.Racks[i%len(d.Racks)]
		}
	}
	return brokers
}

// load returns the number of target replicas of each broker.
func (d *document) load() map[int32]int {
	load := map[int32]int{}
	for _, t := range d.Topics {
		for _, p := range t.Partitions {
			for _, id := range p.targetReplicas() {
				load[id]++
			}
		}
	}
	return load
}

// TopicFault is a fault of a topic; its text begins with the path of the field. Sync returns faults
// joined, and the caller adds the file of the topic.
type TopicFault struct {
	Resource string // metadata.name of the Topic
	Err      error
}

func (f *TopicFault) Error() string { return f.Err.Error() + " (Topic/" + f.Resource + ")" }
func (f *TopicFault) Unwrap() error { return f.Err }
