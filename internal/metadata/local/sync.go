package local

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// ErrBrokersInUse is wrapped when the number of brokers would leave partitions without their broker.
var ErrBrokersInUse = errors.New("brokers cannot be removed while they hold partitions")

// manifests is what the user's files say.
type manifests struct {
	cluster *v1alpha1.LogCluster
	brokers int
	topics  []*v1alpha1.Topic
}

// sync makes the document what the manifests say. The faults concern single topics: those stay as they were, or do not come
// to be. err concerns the whole; nothing may be kept then.
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
	if err := d.checkBrokers(m.brokers); err != nil {
		return nil, err
	}
	d.Brokers = m.brokers
	for _, t := range m.topics {
		if err := d.put(t.DeepCopy(), originManifest); err != nil {
			faults = append(faults, &TopicFault{t.Name, err})
		}
	}
	// What no manifest describes, or describes badly, must still make sense over the new defaults.
	if err := d.check(); err != nil {
		return nil, errors.Join(append(faults, err)...)
	}
	return faults, nil
}

// checkBrokers refuses to take brokers away that hold partitions. Those would be offline until somebody finds out why.
func (d *document) checkBrokers(brokers int) error {
	if brokers < 1 {
		return fmt.Errorf("%d brokers asked for, at least 1 is needed", brokers)
	}
	var topics []string
	needed := int32(0)
	for _, t := range d.Topics {
		highest := int32(-1)
		for _, p := range t.Partitions {
			highest = max(highest, slices.Max(p.Replicas))
		}
		if int(highest) >= brokers {
			topics = append(topics, t.kafkaName())
			needed = max(needed, highest+1)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	return fmt.Errorf("%w: topics %s need %d brokers", ErrBrokersInUse, strings.Join(topics, ", "), needed)
}

// put makes a topic what its resource says: new, or changed. A changed one keeps id and partitions; its origin becomes the
// one given, so a manifest takes over a topic that was made through Kafka. On an error the document is as before.
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
	changed := topic{Name: resource.Name, ID: metadata.NewID().String(), Origin: origin, Spec: resource.Spec, CleanNow: resource.CleanNow()}
	at, exists := d.find(resource.KafkaName())
	if exists {
		changed.ID, changed.Partitions = d.Topics[at].ID, d.Topics[at].Partitions
	}
	if err := d.grow(&changed); err != nil {
		return err
	}
	if exists {
		d.Topics[at] = changed
	} else {
		d.Topics = slices.Insert(d.Topics, at, changed)
	}
	return nil
}

// grow places the partitions that a topic lacks, as placement.Assign chooses; those it has stay where they are. It fails
// with metadata.ErrInvalidPartitions when the topic would shrink, with ErrInvalidReplication when there are too few brokers.
func (d *document) grow(t *topic) error {
	existing := len(t.Partitions)
	missing := int(t.Spec.Partitions) - existing
	if missing < 0 {
		fault := field.Invalid(field.NewPath("spec", "partitions"), t.Spec.Partitions,
			fmt.Sprintf("the topic has %d partitions; they cannot shrink, as records would be lost", existing))
		return fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	replicas := metadata.Replicas(t.Spec.TopicSettings, d.resource())
	placed, err := placement.Assign(d.placementBrokers(), d.load(), existing, missing, replicas)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
	}
	t.Partitions = slices.Clone(t.Partitions)
	for _, replicas := range placed {
		t.Partitions = append(t.Partitions, partition{Replicas: replicas, leader: metadata.NoBroker})
	}
	d.takeUp(t, existing)
	return nil
}

// takeUp puts partitions from index first on where the data of an earlier topic of the name lies, if it was retained and that
// broker is still one of ours. A narrower topic leaves the memory of the rest for when it grows. What lay on a broker that is
// gone is forgotten: the partition begins empty elsewhere, and two homes for one partition could never be told apart later.
func (d *document) takeUp(t *topic, first int) {
	retained := d.Retained[t.kafkaName()]
	for i := first; i < min(len(t.Partitions), len(retained)); i++ {
		if checkPartitions(retained[i:i+1], d.Brokers) == nil {
			t.Partitions[i] = retained[i]
			t.Partitions[i].leader = metadata.NoBroker
		}
	}
	if len(t.Partitions) >= len(retained) {
		delete(d.Retained, t.kafkaName())
	}
}

// remove takes a topic away and remembers where its data stays. It tells whether the topic was there.
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
		places = append(places, before[len(places):]...) // retained from a time when the topic was wider
	}
	d.Retained[kafkaName] = places
	return true
}

// placementBrokers are all brokers, up or not: where a topic lies must not hang on who happens to be up.
func (d *document) placementBrokers() []placement.Broker {
	brokers := make([]placement.Broker, d.Brokers)
	for i := range brokers {
		brokers[i].ID = int32(i)
	}
	return brokers
}

// load counts the replicas each broker holds.
func (d *document) load() map[int32]int {
	load := map[int32]int{}
	for _, t := range d.Topics {
		for _, p := range t.Partitions {
			for _, id := range p.Replicas {
				load[id]++
			}
		}
	}
	return load
}

// TopicFault is what is wrong with one topic, in the words of a manifest's faults: the field's path first. Sync returns them
// joined; the caller knows which file has the topic.
type TopicFault struct {
	Resource string // metadata.name of the Topic
	Err      error
}

func (f *TopicFault) Error() string { return f.Err.Error() + " (Topic/" + f.Resource + ")" }
func (f *TopicFault) Unwrap() error { return f.Err }
