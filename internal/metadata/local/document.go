package local

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// formatVersion is the version of the file's format.
const formatVersion = 1

// Where a topic came from.
const (
	originManifest = "manifest"
	originKafka    = "kafka"
)

// document is the file's content. It is a value: a change works on a clone.
//
// Invariants: every topic's settings resolve over Cluster; names and ids are unique; Topics is sorted by Kafka name; each
// partition has at least one replica.
type document struct {
	Version      int             `json:"version"`
	ClusterID    string          `json:"clusterId"`
	Brokers      int             `json:"brokers"`                // ids 0 to Brokers-1; >= 1
	BrokerEpochs map[int32]int64 `json:"brokerEpochs,omitempty"` // the last incarnation; only grows
	Cluster      *cluster        `json:"cluster,omitempty"`
	Topics       []topic         `json:"topics"`
	// Retained says where the partitions of a topic were, by Kafka name, whose data outlived it: a topic of that name made
	// later takes them up there, and their logs refuse leader epochs that were before.
	Retained map[string][]partition `json:"retained,omitempty"`
}

// cluster is a LogCluster without what only the API server knows.
type cluster struct {
	Name string                  `json:"name"`
	Spec v1alpha1.LogClusterSpec `json:"spec"`
}

// topic is a Topic and where its partitions are. Spec is shared by clones and never written to.
type topic struct {
	Name       string             `json:"name"`
	ID         string             `json:"id"`
	Origin     string             `json:"origin"` // Sync deletes topics of originManifest only
	Spec       v1alpha1.TopicSpec `json:"spec"`
	CleanNow   string             `json:"cleanNow,omitempty"` // the manifest's annotation, as v1alpha1.Topic.CleanNow gives it
	Partitions []partition        `json:"partitions"`
}

// partition is who holds a partition. Leader is not written: see the format.
type partition struct {
	Replicas []int32 `json:"replicas"` // the preferred leader first; never written to, so clones share it
	// LeaderEpoch only grows, also from one topic of a name to the next that takes its records up: the logs refuse a lower one.
	LeaderEpoch int32 `json:"leaderEpoch"`
	leader      int32 // metadata.NoBroker until the first election after a start
}

// newDocument is a cluster without topics, under an id that no other has.
func newDocument() document {
	return document{
		Version: formatVersion, ClusterID: metadata.NewID().String(), Brokers: 1, BrokerEpochs: map[int32]int64{}, Topics: []topic{},
		Retained: map[string][]partition{},
	}
}

// decode reads and checks a file. An unknown field is an error: it was written by a later version, and to drop it with the next
// change would lose what that version knows.
func decode(content []byte) (document, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var d document
	if err := decoder.Decode(&d); err != nil {
		return document{}, err
	}
	if d.BrokerEpochs == nil {
		d.BrokerEpochs = map[int32]int64{}
	}
	if d.Retained == nil {
		d.Retained = map[string][]partition{}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return document{}, errors.New("something follows the object")
	}
	for _, t := range d.Topics {
		for i := range t.Partitions {
			t.Partitions[i].leader = metadata.NoBroker
		}
	}
	return d, d.check()
}

// encode is deterministic (structs in order, maps by key): Store compares its result to tell whether to write at all.
func (d document) encode() ([]byte, error) {
	content, err := json.MarshalIndent(d, "", "  ")
	return append(content, '\n'), err
}

// check holds the rules of the format, which are the invariants of document. It runs on what was read and on what Sync is
// about to write.
func (d document) check() error {
	if d.Version != formatVersion {
		return fmt.Errorf("version is %d, this Heartwood knows version %d", d.Version, formatVersion)
	}
	if _, err := metadata.ParseID(d.ClusterID); err != nil {
		return fmt.Errorf("clusterId: %w", err)
	}
	if d.Brokers < 1 {
		return fmt.Errorf("brokers is %d, at least 1 is needed", d.Brokers)
	}
	for id, epoch := range d.BrokerEpochs {
		if id < 0 || epoch < 0 {
			return fmt.Errorf("brokerEpochs: broker %d has epoch %d, neither may be negative", id, epoch)
		}
	}
	for name, partitions := range d.Retained {
		if err := checkPartitions(partitions, math.MaxInt32); err != nil { // their brokers may be gone
			return fmt.Errorf("retained %q: %w", name, err)
		}
	}
	ids := map[string]bool{}
	for i, t := range d.Topics {
		if i > 0 && d.Topics[i-1].kafkaName() >= t.kafkaName() {
			return fmt.Errorf("topics are not sorted, or %q comes twice", t.kafkaName())
		}
		if ids[t.ID] {
			return fmt.Errorf("topic %q: another topic has its id %s", t.kafkaName(), t.ID)
		}
		ids[t.ID] = true
		if err := t.check(d.Brokers); err != nil {
			return fmt.Errorf("topic %q: %w", t.kafkaName(), err)
		}
		if _, err := metadata.ResolveTopic(t.resource(), d.resource()); err != nil {
			return fmt.Errorf("topic %q: %w", t.kafkaName(), err)
		}
	}
	return nil
}

// check holds the rules that concern one topic, except that its settings resolve.
func (t topic) check(brokers int) error {
	if err := metadata.CheckTopicName(t.kafkaName()); err != nil {
		return err
	}
	if _, err := metadata.ParseID(t.ID); err != nil {
		return err
	}
	if t.Origin != originManifest && t.Origin != originKafka {
		return fmt.Errorf("origin is %q, want %s or %s", t.Origin, originManifest, originKafka)
	}
	if len(t.Partitions) == 0 {
		return errors.New("it has no partitions")
	}
	return checkPartitions(t.Partitions, brokers)
}

// checkPartitions holds the rules of partitions by index: at least one replica each, on different brokers of 0 to brokers-1.
func checkPartitions(partitions []partition, brokers int) error {
	for i, p := range partitions {
		if p.LeaderEpoch < 0 {
			return fmt.Errorf("partition %d: leaderEpoch is %d", i, p.LeaderEpoch)
		}
		if len(p.Replicas) == 0 {
			return fmt.Errorf("partition %d: it has no replicas", i)
		}
		for at, id := range p.Replicas {
			if id < 0 || int(id) >= brokers || slices.Contains(p.Replicas[:at], id) {
				return fmt.Errorf("partition %d: replicas are %v, want different brokers of 0 to %d", i, p.Replicas, brokers-1)
			}
		}
	}
	return nil
}

// kafkaName is the resource's KafkaName, without making one: searches ask for it often.
func (t topic) kafkaName() string { return cmp.Or(t.Spec.TopicName, t.Name) }

// resource is the Topic resource, as far as this file knows it.
func (t topic) resource() *v1alpha1.Topic {
	resource := &v1alpha1.Topic{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Topic"},
		ObjectMeta: metav1.ObjectMeta{Name: t.Name},
		Spec:       t.Spec,
	}
	if t.CleanNow != "" {
		resource.Annotations = map[string]string{v1alpha1.AnnotationCleanNow: t.CleanNow}
	}
	return resource
}

// resource is the LogCluster resource, nil without one.
func (d document) resource() *v1alpha1.LogCluster {
	if d.Cluster == nil {
		return nil
	}
	return &v1alpha1.LogCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Cluster.Name},
		Spec:       d.Cluster.Spec,
	}
}

// clone copies what changes write into. Specs and replica lists are replaced, never written to, so they are shared.
func (d document) clone() document {
	d.BrokerEpochs = maps.Clone(d.BrokerEpochs)
	d.Retained = maps.Clone(d.Retained)
	d.Topics = slices.Clone(d.Topics)
	for i := range d.Topics {
		d.Topics[i].Partitions = slices.Clone(d.Topics[i].Partitions)
	}
	return d
}

// find returns the place of a topic by its Kafka name, or the place where it would be.
func (d document) find(kafkaName string) (at int, found bool) {
	return slices.BinarySearchFunc(d.Topics, kafkaName, func(t topic, name string) int { return cmp.Compare(t.kafkaName(), name) })
}

// elect gives every partition the leader it should have among the brokers that are up. An epoch grows only when somebody
// leads by it: going without a leader writes nothing to the file. It writes into the partitions, so d must be a clone.
func (d document) elect(up map[int32]metadata.Broker) {
	alive := func(id int32) bool { _, ok := up[id]; return ok }
	for _, t := range d.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			// In one process a replica cannot fall behind or lose its log unseen, so all are in sync.
			leader, changed := placement.Elect(placement.Candidate{Replicas: p.Replicas, ISR: p.Replicas, Leader: p.leader}, alive)
			if changed && leader != metadata.NoBroker {
				p.LeaderEpoch++
			}
			p.leader = leader
		}
	}
}

// outgrow lifts leader epochs above those that logs were found to be ahead by: the file that knew them was lost.
func (d document) outgrow(ahead map[servedPartition]int32) error {
	for _, t := range d.Topics {
		topicID, err := metadata.ParseID(t.ID)
		if err != nil {
			return err
		}
		for i := range t.Partitions {
			if found, ok := ahead[servedPartition{topicID, int32(i)}]; ok {
				t.Partitions[i].LeaderEpoch = max(t.Partitions[i].LeaderEpoch, found+1)
			}
		}
	}
	return nil
}

// image is the document as brokers see it.
func (d document) image(up map[int32]metadata.Broker) (*metadata.Image, error) {
	brokers := make([]metadata.Broker, 0, len(up))
	for _, b := range up {
		brokers = append(brokers, b)
	}
	topics := make([]*metadata.Topic, 0, len(d.Topics))
	for _, t := range d.Topics {
		resolved, err := d.imageTopic(t)
		if err != nil {
			return nil, err
		}
		topics = append(topics, resolved)
	}
	return metadata.NewImage(d.ClusterID, metadata.ResolveCleaner(d.resource()), brokers, topics), nil
}

// imageTopic is a topic as brokers see it. The lists are copies: an image lives on while the document changes.
func (d document) imageTopic(t topic) (*metadata.Topic, error) {
	resolved, err := metadata.ResolveTopic(t.resource(), d.resource())
	if err != nil {
		return nil, err
	}
	if resolved.ID, err = metadata.ParseID(t.ID); err != nil {
		return nil, err
	}
	for i, p := range t.Partitions {
		resolved.Partitions = append(resolved.Partitions, &metadata.Partition{
			Index: int32(i), Replicas: slices.Clone(p.Replicas), Leader: p.leader, LeaderEpoch: p.LeaderEpoch,
			ISR: slices.Clone(p.Replicas),
		})
	}
	return resolved, nil
}
