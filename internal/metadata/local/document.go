package local

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// formatVersion is the format version of the file.
const formatVersion = 3

// These are the origins of topics and of the LogCluster.
const (
	originManifest = "manifest"
	originKafka    = "kafka"
)

// document is the content of the file. Changes modify a clone.
//
// Invariants: every topic's settings are valid with the defaults in Cluster; names and ids are
// unique; Topics is sorted by Kafka name; each topic has an assignment for each of its partitions,
// and for other partitions only if their records are retained; partitions satisfy checkEntry.
type document struct {
	Version   int    `json:"version"`
	ClusterID string `json:"clusterId"`
	Brokers   int    `json:"brokers"` // number of brokers, at least 1; their ids are 0 to Brokers-1
	// Draining is greater than Brokers if removed brokers, with ids from Brokers to Draining-1, still
	// have replicas; otherwise it is 0.
	Draining int `json:"draining,omitempty"`
	// Racks contains the racks of the brokers: broker i is in rack Racks[i % len(Racks)].
	Racks []string `json:"racks,omitempty"`
	// BrokerEpochs contains the last broker epoch of each broker. An epoch never decreases.
	BrokerEpochs map[int32]int64 `json:"brokerEpochs,omitempty"`
	// ProducerIDs contains, for each broker, an upper bound of the producer ids that the broker has
	// allocated.
	ProducerIDs map[int32]producerIDs `json:"producerIds,omitempty"`
	Cluster     *cluster              `json:"cluster,omitempty"`
	Topics      []topic               `json:"topics"`
	// Users contains the LogUsers that admin clients have created, and ManifestUsers the LogUsers in
	// manifests. Clones share the lists, which must not be modified.
	Users         []user `json:"users,omitempty"`
	ManifestUsers []user `json:"manifestUsers,omitempty"`
	// Assignments, Partitions and Directories are the contents of a single PartitionSet with all
	// partitions (docs/internals/format/partition-sets.md). Only decode and encode use them. Their
	// keys contain the topic's Kafka name instead of the resource's name.
	Assignments map[string]string `json:"assignments,omitempty"`
	Partitions  map[string]string `json:"partitions,omitempty"`
	Directories map[string]string `json:"directories,omitempty"`
	// set contains the partitions, including retained ones. A later topic with the same name adopts
	// these together with their brokers and leader epochs, because the logs reject lower leader
	// epochs.
	set *partitionset.Set
	// described contains the Kafka names of the topics in the manifests of the last Apply. It is not
	// stored. Clones share it, so it must not be modified.
	described map[string]bool
	// load contains the number of topic replicas that are assigned to each broker.
	load map[int32]int
	// full contains the brokers to which no new replicas are assigned. It is not stored, and is set
	// before each change.
	full map[int32]bool
}

// producerIDs contains a bound for producer ids (metadata.Broker.ProducerIDs), and the directory
// with which the broker registered this bound.
type producerIDs struct {
	Bound     int64  `json:"bound"`
	Directory string `json:"directory,omitempty"`
}

// cluster is a LogCluster without the fields that the API server sets.
type cluster struct {
	Name string                  `json:"name"`
	Spec v1alpha1.LogClusterSpec `json:"spec"`
	// Origin is originKafka if admin clients have created the LogCluster. It is empty if the
	// LogCluster is from a manifest.
	Origin string `json:"origin,omitempty"`
}

// topic is a Topic. Spec.Partitions is the number of its partitions. Clones share Spec, which must
// not be modified.
type topic struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// origin of the topic; Apply deletes only topics of originManifest
	Origin string             `json:"origin"`
	Spec   v1alpha1.TopicSpec `json:"spec"`
	// CleanNow is the value of the annotation in the manifest; see v1alpha1.Topic.CleanNow.
	CleanNow string `json:"cleanNow,omitempty"`
}

// newDocument returns a cluster without topics and with a new unique id.
func newDocument() document {
	return document{
		Version: formatVersion, ClusterID: metadata.NewID().String(), Brokers: 1,
		BrokerEpochs: map[int32]int64{}, Topics: []topic{},
		ProducerIDs: map[int32]producerIDs{}, set: newSet(), load: map[int32]int{},
	}
}

// decode decodes and validates a file. It rejects unknown fields, because a later version has
// written them, and the next change would delete them.
func decode(content []byte) (document, error) {
	var version struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(content, &version) == nil && version.Version != formatVersion {
		return document{}, fmt.Errorf("version is %d, this release supports version %d",
			version.Version, formatVersion)
	}
	var d document
	if err := decodeStrictly(content, &d); err != nil {
		return document{}, err
	}
	if d.BrokerEpochs == nil {
		d.BrokerEpochs = map[int32]int64{}
	}
	if d.ProducerIDs == nil {
		d.ProducerIDs = map[int32]producerIDs{}
	}
	if err := d.decodeSet(); err != nil {
		return document{}, err
	}
	return d, d.check()
}

// decodeStrictly decodes one JSON object, and rejects unknown fields.
func decodeStrictly(content []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected content after the object")
	}
	return nil
}

// encode encodes the document. It is deterministic, because Store compares the results to decide
// whether to write the file.
func (d document) encode() ([]byte, error) {
	var resource v1alpha1.PartitionSet
	d.set.EncodeSpec(&resource)
	d.set.EncodeStatus(&resource)
	d.Assignments = resource.Spec.Assignments
	d.Partitions, d.Directories = resource.Status.Partitions, resource.Status.Directories
	content, err := json.MarshalIndent(d, "", "  ")
	return append(content, '\n'), err
}

// check checks the document's invariants. It is called after a document is decoded, and before Sync
// writes one.
func (d document) check() error {
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
	for id, producerIDs := range d.ProducerIDs {
		if id < 0 || producerIDs.Bound < 0 {
			return fmt.Errorf("producerIds: broker %d has bound %d; neither may be negative",
				id, producerIDs.Bound)
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
		if err := t.check(); err != nil {
			return fmt.Errorf("topic %q: %w", t.kafkaName(), err)
		}
		if _, err := metadata.ResolveTopic(t.resource(), d.resource()); err != nil {
			return fmt.Errorf("topic %q: %w", t.kafkaName(), err)
		}
	}
	return d.checkEntries()
}

// check checks the topic's invariants, except that its settings are valid.
func (t topic) check() error {
	if err := metadata.CheckTopicName(t.kafkaName()); err != nil {
		return err
	}
	if _, err := metadata.ParseID(t.ID); err != nil {
		return err
	}
	if t.Origin != originManifest && t.Origin != originKafka {
		return fmt.Errorf("origin is %q, must be %s or %s", t.Origin, originManifest, originKafka)
	}
	if t.Spec.Partitions < 1 {
		return errors.New("no partitions")
	}
	return nil
}

// running returns the number of brokers, including draining ones.
func (d document) running() int { return max(d.Brokers, d.Draining) }

// kafkaName returns the topic's Kafka name.
func (t topic) kafkaName() string { return cmp.Or(t.Spec.TopicName, t.Name) }

// resource returns the topic as a Topic resource.
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

// clone copies the parts of the document that changes modify in place. It shares the specs, because
// changes replace them as a whole.
func (d document) clone() document {
	d.BrokerEpochs, d.ProducerIDs = maps.Clone(d.BrokerEpochs), maps.Clone(d.ProducerIDs)
	d.Topics = slices.Clone(d.Topics)
	d.set, d.load = d.set.Clone(), maps.Clone(d.load)
	return d
}

// find returns the index of the topic with a Kafka name, or the index at which to insert it.
func (d document) find(kafkaName string) (index int, found bool) {
	return slices.BinarySearchFunc(d.Topics, kafkaName,
		func(t topic, name string) int { return cmp.Compare(t.kafkaName(), name) })
}
