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

// ErrBrokersInUse is wrapped when there would be too few brokers for the replicas that they hold.
var ErrBrokersInUse = errors.New(
	"brokers cannot be removed while topics have as many replicas as there are brokers",
)

// manifests is what the user's files say.
type manifests struct {
	cluster *v1alpha1.LogCluster
	brokers int
	topics  []*v1alpha1.Topic
}

// sync makes the document what the manifests say. The faults concern single topics: those stay as
// they were, or do not come to be. err concerns the whole; nothing may be kept then.
func (d *document) sync(m manifests) (faults []error, err error) {
	d.Cluster = nil
	if m.cluster != nil {
		d.Cluster = &cluster{Name: m.cluster.Name, Spec: *m.cluster.Spec.DeepCopy()}
	}
	wanted := map[string]bool{}
	for _, t := range m.topics {
		wanted[t.KafkaName()] = true
	}
	for _, t := range slices.Clone(d.Topics) {
		if t.Origin == originManifest && !wanted[t.kafkaName()] {
			d.remove(t.kafkaName())
		}
	}
	if m.brokers < 1 {
		return nil, fmt.Errorf("%d brokers asked for, at least 1 is needed", m.brokers)
	}
	before := d.running()
	d.Brokers = m.brokers
	d.Draining = before // decide knows what of that is true
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
	// What no manifest describes, or describes badly, must still make sense over the new defaults.
	if err := d.check(); err != nil {
		return nil, errors.Join(append(faults, err)...)
	}
	return faults, nil
}

// drain gives the replicas on brokers that are to go another place, and every topic the replicas
// that its cluster's defaults ask for now. Topics that have more replicas than there would be
// brokers keep them from going: fewer copies are for somebody to decide.
func (d *document) drain() error {
	var topics []string
	needed := 0
	for i := range d.Topics {
		if t := &d.Topics[i]; d.fit(t) != nil {
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

// fit gives the partitions of a topic as many replicas as it asks for, all on brokers that stay.
// Replicas move when brokers do it; until then the target says where to. It fails when there are
// too few brokers.
func (d *document) fit(t *topic) error {
	replicas := metadata.Replicas(t.Spec.TopicSettings, d.resource())
	settled := func(ids []int32) bool {
		return len(ids) == replicas &&
			int(slices.Max(ids)) < d.Brokers
	}
	places := make([][]int32, len(t.Partitions))
	fits := true
	for i, p := range t.Partitions {
		places[i] = p.destination()
		fits = fits && settled(places[i])
	}
	if fits {
		return nil
	}
	fitted, err := placement.Fit(d.placementBrokers(), d.load(), places, replicas)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
	}
	t.Partitions = slices.Clone(t.Partitions)
	for i, ids := range fitted {
		switch p := &t.Partitions[i]; {
		case slices.Equal(ids, places[i]):
		case p.LeaderEpoch == 0: // nobody holds anything yet
			p.Replicas, p.Target, p.Assignments = ids, nil, nil
		default:
			p.Target = ids
		}
	}
	return nil
}

// destination is where the replicas are to be.
func (p partition) destination() []int32 {
	if len(p.Target) > 0 {
		return p.Target
	}
	return p.Replicas
}

// put makes a topic what its resource says: new, or changed. A changed one keeps id and partitions;
// its origin becomes the one given, so a manifest takes over a topic that was made through Kafka.
// On an error the document is as before.
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
		resource.Spec.Partitions = 1 // the schema's default; manifests have it filled in
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
	if err := d.fit(&changed); err != nil {
		return err
	}
	if exists {
		d.Topics[at] = changed
	} else {
		d.Topics = slices.Insert(d.Topics, at, changed)
	}
	return nil
}

// grow places the partitions that a topic lacks, as placement.Assign chooses; those it has stay
// where they are. It fails with metadata.ErrInvalidPartitions when the topic would shrink, with
// ErrInvalidReplication when there are too few brokers.
func (d *document) grow(t *topic) error {
	existing := len(t.Partitions)
	missing := int(t.Spec.Partitions) - existing
	if missing < 0 {
		fault := field.Invalid(field.NewPath("spec", "partitions"), t.Spec.Partitions,
			fmt.Sprintf("the topic has %d partitions; they cannot shrink, as records would be lost",
				existing))
		return fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	// made through Kafka, and now described by a manifest
	if missing > 0 && existing > 0 && metadata.InternalTopic(t.kafkaName()) {
		fault := field.Invalid(
			field.NewPath("spec", "partitions"),
			t.Spec.Partitions,
			fmt.Sprintf(
				"the topic has %d partitions; groups are in them by their number, and would lose their offsets",
				existing,
			),
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
	d.takeUp(t, existing)
	return nil
}

// takeUp puts partitions from index first on where the data of an earlier topic of the name lies,
// if it was retained and some broker that was in sync is still one of ours. A narrower topic leaves
// the memory of the rest for when it grows. What lay on brokers that are gone is forgotten: the
// partition begins empty elsewhere, and two homes for one partition could never be told apart
// later.
func (d *document) takeUp(t *topic, first int) {
	retained := d.Retained[t.kafkaName()]
	for i := first; i < min(len(t.Partitions), len(retained)); i++ {
		if p, ok := retained[i].among(d.running()); ok {
			t.Partitions[i] = p
		}
	}
	if len(t.Partitions) >= len(retained) {
		delete(d.Retained, t.kafkaName())
	}
}

// among is a retained partition as far as it is on brokers 0 to brokers-1; ok is false if nobody of
// those was in sync.
func (p partition) among(brokers int) (_ partition, ok bool) {
	gone := func(id int32) bool { return int(id) >= brokers }
	p.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), gone)
	p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(m member) bool { return gone(m.Broker) })
	p.Assignments = maps.Clone(p.Assignments)
	maps.DeleteFunc(p.Assignments, func(id int32, _ string) bool { return gone(id) })
	p.Target, p.leader = nil, metadata.NoBroker
	return p, p.check(brokers) == nil
}

// remove takes a topic away and remembers where its data stays. It tells whether the topic was
// there.
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
	places := slices.Clone(t.Partitions)
	if before := d.Retained[kafkaName]; len(before) > len(places) {
		// retained from a time when the topic was wider
		places = append(places, before[len(places):]...)
	}
	d.Retained[kafkaName] = places
	return true
}

// placementBrokers are all brokers, up or not: where a topic lies must not hang on who happens to
// be up.
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

// load counts the replicas each broker is to hold.
func (d *document) load() map[int32]int {
	load := map[int32]int{}
	for _, t := range d.Topics {
		for _, p := range t.Partitions {
			for _, id := range p.destination() {
				load[id]++
			}
		}
	}
	return load
}

// TopicFault is what is wrong with one topic, in the words of a manifest's faults: the field's path
// first. Sync returns them joined; the caller knows which file has the topic.
type TopicFault struct {
	Resource string // metadata.name of the Topic
	Err      error
}

func (f *TopicFault) Error() string { return f.Err.Error() + " (Topic/" + f.Resource + ")" }
func (f *TopicFault) Unwrap() error { return f.Err }
