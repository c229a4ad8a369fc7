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

// formatVersion is the format version of files that are written. Files of firstVersion, which have
// only one replica per partition, can also be read.
const (
	firstVersion  = 1
	formatVersion = 2
)

// Origins of topics and of the LogCluster.
const (
	originManifest = "manifest"
	originKafka    = "kafka"
)

// document is the content of the file. Changes modify a clone.
//
// Invariants: every topic's settings are valid with the defaults in Cluster; names and ids are
// unique; Topics is sorted by Kafka name; partitions satisfy partition.check.
type document struct {
	Version   int    `json:"version"`
	ClusterID string `json:"clusterId"`
	Brokers   int    `json:"brokers"` // ids 0 to Brokers-1; >= 1
	// Draining is above Brokers if removed brokers, with ids from Brokers to Draining-1, still hold
	// replicas; otherwise 0.
	Draining int `json:"draining,omitempty"`
	// Racks are the racks of the brokers: broker i is in rack Racks[i % len(Racks)].
	Racks []string `json:"racks,omitempty"`
	// BrokerEpochs is the last broker epoch of each broker. It never decreases.
	BrokerEpochs map[int32]int64 `json:"brokerEpochs,omitempty"`
	// ProducerIDs contains an upper bound of the producer ids that each broker has allocated.
	ProducerIDs map[int32]producerIDs `json:"producerIds,omitempty"`
	Cluster     *cluster              `json:"cluster,omitempty"`
	Topics      []topic               `json:"topics"`
	// Retained contains the partitions of deleted topics whose data is retained, by Kafka name. A
	// later topic with the same name adopts these partitions with their brokers and leader epochs,
	// because the logs reject lower leader epochs.
	Retained map[string][]partition `json:"retained,omitempty"`
}

// producerIDs is a bound of producer ids (metadata.Broker.ProducerIDs), and the directory of the
// broker when it registered that bound.
type producerIDs struct {
	Bound     int64  `json:"bound"`
	Directory string `json:"directory,omitempty"`
}

// cluster is a LogCluster without the fields that the API server sets.
type cluster struct {
	Name string                  `json:"name"`
	Spec v1alpha1.LogClusterSpec `json:"spec"`
	// Origin is originKafka if admin clients have created the LogCluster; empty: it has a manifest.
	Origin string `json:"origin,omitempty"`
}

// topic is a Topic with its partitions. Clones share Spec, which must not be modified.
type topic struct {
	Name   string             `json:"name"`
	ID     string             `json:"id"`
	Origin string             `json:"origin"` // Sync deletes topics of originManifest only
	Spec   v1alpha1.TopicSpec `json:"spec"`
	// CleanNow is the value of the annotation in the manifest; see v1alpha1.Topic.CleanNow.
	CleanNow   string      `json:"cleanNow,omitempty"`
	Partitions []partition `json:"partitions"`
}

// partition is the state of a partition. Clones share its lists, which must not be modified.
type partition struct {
	Replicas []int32 `json:"replicas"` // the preferred leader first
	// Target are the target replicas of a reassignment; empty: no reassignment is in progress.
	Target []int32 `json:"target,omitempty"`
	// ReplicaIncarnations is that of placement.Partition. Files of earlier versions do not contain
	// it.
	ReplicaIncarnations map[int32]string `json:"assignments,omitempty"`
	// LeaderEpoch never decreases, not even when a topic adopts the records of a deleted topic,
	// because the logs reject lower leader epochs.
	LeaderEpoch int32 `json:"leaderEpoch"`
	// UnprovenEpoch is that of placement.Partition.
	UnprovenEpoch int32    `json:"unprovenEpoch,omitempty"`
	ISR           []member `json:"isr,omitempty"` // empty only before the first election
	// LeaderDirectory is the directory id of the last leader.
	LeaderDirectory string `json:"leaderDirectory,omitempty"`
	leader          int32  // not stored: metadata.NoBroker until the first election after a start
}

// member is an in-sync replica.
type member struct {
	Broker    int32  `json:"broker"`
	Epoch     int64  `json:"epoch"`
	Directory string `json:"directory,omitempty"`
}

// newDocument returns a cluster without topics and with a new unique id.
func newDocument() document {
	return document{
		Version: formatVersion, ClusterID: metadata.NewID().String(), Brokers: 1,
		BrokerEpochs: map[int32]int64{}, Topics: []topic{},
		Retained: map[string][]partition{}, ProducerIDs: map[int32]producerIDs{},
	}
}

// decode decodes and validates a file. It rejects unknown fields: a later version has written them,
// and the next change would delete them.
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
		return document{}, errors.New("unexpected content after the object")
	}
	for _, t := range d.Topics {
		for i := range t.Partitions {
			t.Partitions[i].leader = metadata.NoBroker
		}
	}
	d.upgrade()
	return d, d.check()
}

// upgrade converts a document of the first version, which has no ISRs. If a partition has had a
// leader, its only replica becomes the ISR, with the last epoch of its broker.
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

// encode is deterministic, because Store compares its result to decide whether to write.
func (d document) encode() ([]byte, error) {
	content, err := json.MarshalIndent(d, "", "  ")
	return append(content, '\n'), err
}

// check checks the invariants of document. It is called after decoding and before Sync writes.
func (d document) check() error {
	if d.Version != formatVersion {
		return fmt.Errorf("version is %d, this release supports versions %d to %d", d.Version,
			firstVersion, formatVersion)
	}
	if _, err := metadata.ParseID(d.ClusterID); err != nil {
		return fmt.Errorf("clusterId: %w", err)
	}
	if d.Brokers < 1 {
		return fmt.Errorf("brokers is %d, must be at least 1", d.Brokers)
	}
	if d.Draining != 0 && d.Draining <= d.Brokers {
		return fmt.Errorf("draining is %d, must be 0 or above the number of brokers, %d",
			d.Draining,
			d.Brokers)
	}
	for id, epoch := range d.BrokerEpochs {
		if id < 0 || epoch < 0 {
			return fmt.Errorf("brokerEpochs: broker %d has epoch %d; neither may be negative", id,
				epoch)
		}
	}
	for id, of := range d.ProducerIDs {
		if id < 0 || of.Bound < 0 {
			return fmt.Errorf("producerIds: broker %d has bound %d; neither may be negative",
				id, of.Bound)
		}
	}
	for name, partitions := range d.Retained {
		// A retained partition may be on brokers that do not exist any more, so any broker id is
		// valid.
		if err := checkPartitions(partitions, math.MaxInt32); err != nil {
			return fmt.Errorf("retained %q: %w", name, err)
		}
	}
	ids := map[string]bool{}
	for i, t := range d.Topics {
		if i > 0 && d.Topics[i-1].kafkaName() >= t.kafkaName() {
			return fmt.Errorf("topics are not sorted, or %q is a duplicate", t.kafkaName())
		}
		if ids[t.ID] {
			return fmt.Errorf("topic %q: another topic has the same id %s", t.kafkaName(), t.ID)
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

// check checks the invariants of a topic, other than the validity of its settings.
func (t topic) check(brokers int) error {
	if err := metadata.CheckTopicName(t.kafkaName()); err != nil {
		return err
	}
	if _, err := metadata.ParseID(t.ID); err != nil {
		return err
	}
	if t.Origin != originManifest && t.Origin != originKafka {
		return fmt.Errorf("origin is %q, must be %s or %s", t.Origin, originManifest, originKafka)
	}
	if len(t.Partitions) == 0 {
		return errors.New("no partitions")
	}
	return checkPartitions(t.Partitions, brokers)
}

// running returns the number of brokers, including draining ones.
func (d document) running() int { return max(d.Brokers, d.Draining) }

// checkPartitions checks the invariants of partitions in a cluster of brokers with ids 0 to
// brokers-1.
func checkPartitions(partitions []partition, brokers int) error {
	for i, p := range partitions {
		if err := p.check(brokers); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
	}
	return nil
}

// check checks the invariants of a partition. It must have at least one replica, and its replicas
// must be on different brokers. Its ISR must not be empty once the partition has had a leader.
func (p partition) check(brokers int) error {
	different := func(what string, ids []int32) error {
		for at, id := range ids {
			if id < 0 || int(id) >= brokers || slices.Contains(ids[:at], id) {
				return fmt.Errorf("%s are %v, must be distinct brokers from 0 to %d", what, ids,
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
		return errors.New("no replicas")
	case (p.LeaderEpoch == 0) != (len(members) == 0):
		return fmt.Errorf(
			"isr is %v with leaderEpoch %d: must be empty exactly before the first election",
			members,
			p.LeaderEpoch,
		)
	case slices.ContainsFunc(members, func(id int32) bool { return !slices.Contains(p.Replicas, id) }):
		return fmt.Errorf("isr is %v, must be a subset of the replicas %v", members, p.Replicas)
	case slices.ContainsFunc(p.ISR, func(m member) bool { return m.Epoch < 0 }):
		return errors.New("isr: negative epoch")
	}
	for id, incarnation := range p.ReplicaIncarnations {
		if !slices.Contains(p.Replicas, id) || incarnation == "" {
			return fmt.Errorf("assignments has %q for broker %d; the replicas are %v", incarnation,
				id, p.Replicas)
		}
	}
	return nil
}

// members returns the ids of the in-sync brokers.
func (p partition) members() []int32 {
	all := make([]int32, 0, len(p.ISR))
	for _, m := range p.ISR {
		all = append(all, m.Broker)
	}
	return all
}

// kafkaName returns the Kafka name of the topic.
func (t topic) kafkaName() string { return cmp.Or(t.Spec.TopicName, t.Name) }

// resource returns the Topic resource.
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

// resource returns the LogCluster resource, or nil if the document has none.
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

// clone copies the parts of the document that changes modify in place. It shares the specs and the
// lists of partitions, because changes replace them as a whole.
func (d document) clone() document {
	d.BrokerEpochs, d.ProducerIDs = maps.Clone(d.BrokerEpochs), maps.Clone(d.ProducerIDs)
	d.Retained = maps.Clone(d.Retained)
	d.Topics = slices.Clone(d.Topics)
	for i := range d.Topics {
		d.Topics[i].Partitions = slices.Clone(d.Topics[i].Partitions)
	}
	return d
}

// find returns the index of the topic with a Kafka name, or the index at which it would be
// inserted.
func (d document) find(kafkaName string) (at int, found bool) {
	return slices.BinarySearchFunc(d.Topics, kafkaName,
		func(t topic, name string) int { return cmp.Compare(t.kafkaName(), name) })
}
