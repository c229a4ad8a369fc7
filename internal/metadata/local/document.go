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
)

// formatVersion is the version of the file's format that is written. firstVersion is read, too: it
// knew one replica of each partition.
const (
	firstVersion  = 1
	formatVersion = 2
)

// Where a topic came from.
const (
	originManifest = "manifest"
	originKafka    = "kafka"
)

// document is the file's content. It is a value: a change works on a clone.
//
// Invariants: every topic's settings resolve over Cluster; names and ids are unique; Topics is
// sorted by Kafka name; partitions keep the rules of their check.
type document struct {
	Version   int    `json:"version"`
	ClusterID string `json:"clusterId"`
	Brokers   int    `json:"brokers"` // ids 0 to Brokers-1; >= 1
	// brokers Brokers to Draining-1 still hold replicas; 0: none do
	Draining int `json:"draining,omitempty"`
	// broker i is in rack Racks[i % len(Racks)]
	Racks        []string        `json:"racks,omitempty"`
	BrokerEpochs map[int32]int64 `json:"brokerEpochs,omitempty"` // the last incarnation; only grows
	// ProducerIDs bounds what each broker has given out, on the disk it had last.
	ProducerIDs map[int32]producerIDs `json:"producerIds,omitempty"`
	Cluster     *cluster              `json:"cluster,omitempty"`
	Topics      []topic               `json:"topics"`
	// Retained says where the partitions of a topic were, by Kafka name, whose data outlived it: a
	// topic of that name made later takes them up there, and their logs refuse leader epochs that
	// were before.
	Retained map[string][]partition `json:"retained,omitempty"`
}

// producerIDs is metadata.Broker.ProducerIDs, and the directory that said so.
type producerIDs struct {
	Bound     int64  `json:"bound"`
	Directory string `json:"directory,omitempty"`
}

// cluster is a LogCluster without what only the API server knows.
type cluster struct {
	Name string                  `json:"name"`
	Spec v1alpha1.LogClusterSpec `json:"spec"`
}

// topic is a Topic and where its partitions are. Spec is shared by clones and never written to.
type topic struct {
	Name   string             `json:"name"`
	ID     string             `json:"id"`
	Origin string             `json:"origin"` // Sync deletes topics of originManifest only
	Spec   v1alpha1.TopicSpec `json:"spec"`
	// the manifest's annotation, as v1alpha1.Topic.CleanNow gives it
	CleanNow   string      `json:"cleanNow,omitempty"`
	Partitions []partition `json:"partitions"`
}

// partition is who holds a partition. Its lists are replaced, never written to, so clones share
// them.
type partition struct {
	Replicas []int32 `json:"replicas"` // the preferred leader first
	// where they are to be, when that is not where they are
	Target []int32 `json:"target,omitempty"`
	// Assignments are placement.Partition's; a file from before there were any has none.
	Assignments map[int32]string `json:"assignments,omitempty"`
	// LeaderEpoch only grows, also from one topic of a name to the next that takes its records up:
	// the logs refuse a lower one.
	LeaderEpoch int32 `json:"leaderEpoch"`
	// UnprovenEpoch is placement.Partition's.
	UnprovenEpoch int32    `json:"unprovenEpoch,omitempty"`
	ISR           []member `json:"isr,omitempty"` // empty only before the first election
	// LeaderDirectory is the disk that led last.
	LeaderDirectory string `json:"leaderDirectory,omitempty"`
	leader          int32  // not written: metadata.NoBroker until the first election after a start
}

// member is a replica in sync.
type member struct {
	Broker    int32  `json:"broker"`
	Epoch     int64  `json:"epoch"`
	Directory string `json:"directory,omitempty"`
}

// newDocument is a cluster without topics, under an id that no other has.
func newDocument() document {
	return document{
		Version: formatVersion, ClusterID: metadata.NewID().String(), Brokers: 1,
		BrokerEpochs: map[int32]int64{}, Topics: []topic{},
		Retained: map[string][]partition{}, ProducerIDs: map[int32]producerIDs{},
	}
}

// decode reads and checks a file. An unknown field is an error: it was written by a later version,
// and to drop it with the next change would lose what that version knows.
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
	if d.ProducerIDs == nil {
		d.ProducerIDs = map[int32]producerIDs{}
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
	d.upgrade()
	return d, d.check()
}

// upgrade makes a document of the first version one of ours: a partition's only replica was in
// sync, as the broker's last incarnation.
func (d *document) upgrade() {
	if d.Version != firstVersion {
		return
	}
	d.Version = formatVersion
	inSync := func(partitions []partition) {
		for i, p := range partitions {
			if p.LeaderEpoch == 0 || len(p.ISR) > 0 {
				continue
			}
			for _, id := range p.Replicas {
				partitions[i].ISR = append(partitions[i].ISR,
					member{Broker: id, Epoch: d.BrokerEpochs[id]})
			}
		}
	}
	for _, t := range d.Topics {
		inSync(t.Partitions)
	}
	for _, partitions := range d.Retained {
		inSync(partitions)
	}
}

// encode is deterministic (structs in order, maps by key): Store compares its result to tell
// whether to write at all.
func (d document) encode() ([]byte, error) {
	content, err := json.MarshalIndent(d, "", "  ")
	return append(content, '\n'), err
}

// check holds the rules of the format, which are the invariants of document. It runs on what was
// read and on what Sync is about to write.
func (d document) check() error {
	if d.Version != formatVersion {
		return fmt.Errorf("version is %d, this Heartwood knows versions %d to %d", d.Version,
			firstVersion, formatVersion)
	}
	if _, err := metadata.ParseID(d.ClusterID); err != nil {
		return fmt.Errorf("clusterId: %w", err)
	}
	if d.Brokers < 1 {
		return fmt.Errorf("brokers is %d, at least 1 is needed", d.Brokers)
	}
	if d.Draining != 0 && d.Draining <= d.Brokers {
		return fmt.Errorf("draining is %d, want 0 or more than the %d brokers", d.Draining,
			d.Brokers)
	}
	for id, epoch := range d.BrokerEpochs {
		if id < 0 || epoch < 0 {
			return fmt.Errorf("brokerEpochs: broker %d has epoch %d, neither may be negative", id,
				epoch)
		}
	}
	for id, of := range d.ProducerIDs {
		if id < 0 || of.Bound < 0 {
			return fmt.Errorf("producerIds: broker %d has the bound %d, neither may be negative",
				id, of.Bound)
		}
	}
	for name, partitions := range d.Retained {
		// their brokers may be gone
		if err := checkPartitions(partitions, math.MaxInt32); err != nil {
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
		if err := t.check(d.running()); err != nil {
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

// running is how many brokers there are, those that are to go among them.
func (d document) running() int { return max(d.Brokers, d.Draining) }

// checkPartitions holds the rules of partitions by index, on brokers 0 to brokers-1.
func checkPartitions(partitions []partition, brokers int) error {
	for i, p := range partitions {
		if err := p.check(brokers); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
	}
	return nil
}

// check holds the rules of one partition: at least one replica, all on different brokers, and
// somebody in sync once there was a leader.
func (p partition) check(brokers int) error {
	different := func(what string, ids []int32) error {
		for at, id := range ids {
			if id < 0 || int(id) >= brokers || slices.Contains(ids[:at], id) {
				return fmt.Errorf("%s are %v, want different brokers of 0 to %d", what, ids,
					brokers-1)
			}
		}
		return nil
	}
	members := p.members()
	if err := errors.Join(different("replicas", p.Replicas), different("target", p.Target),
		different("isr", members)); err != nil {
		return err
	}
	switch {
	case p.LeaderEpoch < 0 || p.UnprovenEpoch < 0 || p.UnprovenEpoch > p.LeaderEpoch:
		return fmt.Errorf("leaderEpoch is %d, unprovenEpoch %d", p.LeaderEpoch, p.UnprovenEpoch)
	case len(p.Replicas) == 0:
		return errors.New("it has no replicas")
	case (p.LeaderEpoch == 0) != (len(members) == 0):
		return fmt.Errorf(
			"isr is %v with leaderEpoch %d: it is empty before the first election, and only then",
			members,
			p.LeaderEpoch,
		)
	case slices.ContainsFunc(members, func(id int32) bool { return !slices.Contains(p.Replicas, id) }):
		return fmt.Errorf("isr is %v, which are not all among the replicas %v", members, p.Replicas)
	case slices.ContainsFunc(p.ISR, func(m member) bool { return m.Epoch < 0 }):
		return errors.New("isr: an epoch is negative")
	}
	for id, assignment := range p.Assignments {
		if !slices.Contains(p.Replicas, id) || assignment == "" {
			return fmt.Errorf("assignments has %q for broker %d; the replicas are %v", assignment,
				id, p.Replicas)
		}
	}
	return nil
}

// members are the brokers in sync.
func (p partition) members() []int32 {
	all := make([]int32, 0, len(p.ISR))
	for _, m := range p.ISR {
		all = append(all, m.Broker)
	}
	return all
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

// clone copies what changes write into. Specs and the lists of partitions are replaced, never
// written to, so they are shared.
func (d document) clone() document {
	d.BrokerEpochs, d.ProducerIDs = maps.Clone(d.BrokerEpochs), maps.Clone(d.ProducerIDs)
	d.Retained = maps.Clone(d.Retained)
	d.Topics = slices.Clone(d.Topics)
	for i := range d.Topics {
		d.Topics[i].Partitions = slices.Clone(d.Topics[i].Partitions)
	}
	return d
}

// find returns the place of a topic by its Kafka name, or the place where it would be.
func (d document) find(kafkaName string) (at int, found bool) {
	return slices.BinarySearchFunc(d.Topics, kafkaName,
		func(t topic, name string) int { return cmp.Compare(t.kafkaName(), name) })
}
