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

// ErrBrokersInUse means that a partition has more replicas than brokers would remain.
var ErrBrokersInUse = errors.New(
	"brokers cannot be removed, because too few would remain for the replicas of some topics",
)

// manifests is the content of the manifests that Sync applies.
type manifests struct {
	cluster *v1alpha1.LogCluster
	brokers int
	topics  []*v1alpha1.Topic
}

// sync applies manifests. Each fault is an error in one topic, which stays unchanged or is not
// created. If err is not nil, the caller must discard the document.
func (d *document) sync(m manifests) (faults []error, err error) {
	d.syncCluster(m)
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
	d.Draining = before // decide lowers Draining
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
	// Topics whose manifest is missing or invalid must also be valid with the new defaults.
	if err := d.check(); err != nil {
		return nil, errors.Join(append(faults, err)...)
	}
	return faults, nil
}

// syncCluster replaces the LogCluster by that of the manifests. Without one, a LogCluster that
// admin clients have created stays, with the new number of brokers.
func (d *document) syncCluster(m manifests) {
	switch {
	case m.cluster != nil:
		d.Cluster = &cluster{Name: m.cluster.Name, Spec: *m.cluster.Spec.DeepCopy()}
	case d.Cluster != nil && d.Cluster.Origin == originKafka:
		kept := *d.Cluster
		kept.Spec.Brokers = int32(m.brokers)
		d.Cluster = &kept
	default:
		d.Cluster = nil
	}
}

// drain sets targets for replicas on removed brokers, and adapts all topics to the current default
// number of replicas. It fails if a topic has more replicas than brokers would remain, because only
// the user may decide to reduce the number of replicas.
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

// fitReplicas sets targets so that each partition of a topic has the requested number of replicas,
// on brokers that are not removed. It fails if there are too few brokers.
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

// targetReplicas returns the target of a reassignment, or the present replicas if no reassignment
// is in progress.
func (p partition) targetReplicas() []int32 {
	if len(p.Target) > 0 {
		return p.Target
	}
	return p.Replicas
}

// put creates a topic from its resource, or changes it. A changed topic keeps its id and
// partitions. Its origin becomes the parameter origin, so that a manifest takes over a topic that
// was created through Kafka. If put fails, the document is unchanged.
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
	at, exists := d.find(resource.KafkaName())
	switch {
	case resource.Spec.Partitions != 0:
	case exists: // the default may have changed since the topic was created
		resource.Spec.Partitions = int32(len(d.Topics[at].Partitions))
	default:
		resource.Spec.Partitions = metadata.NewTopicPartitions(resource.KafkaName(), d.resource())
	}
	changed := topic{Name: resource.Name, ID: metadata.NewID().String(), Origin: origin,
		Spec: resource.Spec, CleanNow: resource.CleanNow()}
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

// grow adds the missing partitions of a topic, on the brokers that assign chooses.
// Existing partitions keep their brokers. It fails with metadata.ErrInvalidPartitions if the topic
// would shrink, with metadata.ErrInvalidReplication if there are too few brokers, and with
// metadata.ErrInvalidAssignment if its initial replicas are invalid.
func (d *document) grow(t *topic) error {
	existing := len(t.Partitions)
	missing := int(t.Spec.Partitions) - existing
	if missing < 0 {
		fault := field.Invalid(
			field.NewPath("spec", "partitions"),
			t.Spec.Partitions,
			fmt.Sprintf(
				"the topic has %d partitions; their number cannot be reduced, because records would be lost",
				existing,
			),
		)
		return fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	// This can happen if the topic was created through Kafka and now has a manifest.
	if missing > 0 && existing > 0 && metadata.InternalTopic(t.kafkaName()) {
		fault := field.Invalid(
			field.NewPath("spec", "partitions"),
			t.Spec.Partitions,
			fmt.Sprintf("the topic has %d partitions; another number would assign groups to other "+
				"partitions, which do not have their offsets", existing),
		)
		return fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	if err := d.assign(t, missing); err != nil {
		return err
	}
	// The partitions have their initial replicas. The entries of later partitions are kept.
	t.Spec.InitialReplicas = slices.DeleteFunc(slices.Clone(t.Spec.InitialReplicas),
		func(r v1alpha1.InitialReplicas) bool { return r.Partition < t.Spec.Partitions })
	d.adoptRetained(t, existing)
	return nil
}

// assign appends new partitions to a topic. Each has its initial replicas if the topic has an entry
// for it, else those that placement.Assign chooses.
func (d *document) assign(t *topic, count int) error {
	first := int32(len(t.Partitions))
	initial, err := metadata.InitialReplicas(&t.Spec, d.resource(), int32(d.Brokers),
		func(index int32) bool { return index >= first && index < first+int32(count) })
	if err != nil {
		return err
	}
	t.Partitions = slices.Clone(t.Partitions)
	load := d.load()
	add := func(ids []int32) {
		t.Partitions = append(t.Partitions, partition{Replicas: ids, leader: metadata.NoBroker})
		for _, id := range ids {
			load[id]++
		}
	}
	for index := first; index < first+int32(count); index = int32(len(t.Partitions)) {
		if ids := initial[index]; ids != nil {
			add(ids)
			continue
		}
		next := index
		for next < first+int32(count) && initial[next] == nil {
			next++
		}
		placed, err := placement.Assign(d.placementBrokers(), load, int(index), int(next-index),
			metadata.Replicas(t.Spec.TopicSettings, d.resource()))
		if err != nil {
			return fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
		}
		for _, ids := range placed {
			add(ids)
		}
	}
	return nil
}

// adoptRetained replaces the partitions with index first and above by the retained partitions of a
// deleted topic with the same name. It replaces a partition only if a broker that was in sync with
// the retained partition still exists. Otherwise the new partition starts empty on other brokers;
// the retained data is not adopted later, because a partition must not have two sets of data. If
// the topic has fewer partitions than were retained, the retained partitions remain for the case
// that the topic grows.
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

// onBrokers returns a retained partition restricted to brokers 0 to brokers-1. ok is false if none
// of these brokers was in sync.
func (p partition) onBrokers(brokers int) (_ partition, ok bool) {
	removed := func(id int32) bool { return int(id) >= brokers }
	p.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), removed)
	p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(m member) bool { return removed(m.Broker) })
	p.ReplicaIncarnations = maps.Clone(p.ReplicaIncarnations)
	maps.DeleteFunc(p.ReplicaIncarnations, func(id int32, _ string) bool { return removed(id) })
	p.Target, p.leader = nil, metadata.NoBroker
	return p, p.check(brokers) == nil
}

// remove deletes a topic and moves its partitions to Retained if its data is retained. It reports
// whether the topic existed.
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
		// An earlier topic with the same name had more partitions, which are still retained.
		assignments = append(assignments, before[len(assignments):]...)
	}
	d.Retained[kafkaName] = assignments
	return true
}

// placementBrokers returns all brokers, up or down, because the placement of a topic must not
// depend on which brokers are up.
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

// load returns the number of replicas that each broker will hold after all current reassignments.
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

// TopicFault is an error in one topic. Its text begins with the path of the field. Sync returns
// joined TopicFaults; its caller adds the name of the file that contains the topic.
type TopicFault struct {
	Resource string // metadata.name of the Topic
	Err      error
}

func (f *TopicFault) Error() string { return f.Err.Error() + " (Topic/" + f.Resource + ")" }
func (f *TopicFault) Unwrap() error { return f.Err }
