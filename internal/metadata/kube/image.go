package kube

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// resources contains the cached resources of a cluster. They are read-only.
type resources struct {
	name    string // name of the LogCluster
	cluster *v1alpha1.LogCluster
	topics  []*v1alpha1.Topic
	sets    partitionSets
	users   []*v1alpha1.LogUser // users of all LogClusters in the namespace
	secrets []*corev1.Secret    // Secrets that contain SCRAM verifiers
	// unknownUsers is the value of Options.UnknownUsers.
	unknownUsers []byte
}

// imageCache builds images. It reuses the unchanged topics and partitions of the previous image:
// with 10,000 partitions, most changes affect only a few of them. The zero value is ready for use.
type imageCache struct {
	alive    map[int32]metadata.Broker
	sets     partitionSets
	topics   map[types.UID]cachedTopic
	security securityCache
}

// cachedTopic is a topic of the previous image, together with the inputs from which it was built.
type cachedTopic struct {
	version topicVersion
	slots   []slot
	topic   *metadata.Topic
}

// topicVersion identifies everything on which a topic's settings depend.
type topicVersion struct {
	cluster                       types.UID
	clusterGeneration, generation int64
	name, cleanNow                string
	valid                         bool // true if the settings are valid
}

// image builds an image from the resources and the brokers that are alive. last is the previous
// image and may be nil. If a topic's settings have become invalid, the topic keeps its settings in
// last, because brokers delete the records of a topic that is missing from the image. Each fault
// names a topic that kept its settings or was omitted, or an entry of a PartitionSet that cannot be
// used.
func (c *imageCache) image(r resources, alive map[int32]metadata.Broker,
	last *metadata.Image) (image *metadata.Image, faults []error) {
	clusterID, err := id(r.cluster.UID)
	if err != nil {
		return nil, []error{fmt.Errorf("read LogCluster %s: %w", r.cluster.Name, err)}
	}
	next := imageCache{alive: alive, sets: r.sets,
		topics: make(map[types.UID]cachedTopic, len(r.topics))}
	var topics []*metadata.Topic
	var unresolved []metadata.ID
	byName := r.byKafkaName()
	// The names are sorted, so that equal faults have equal text. Each text is logged only once.
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t := byName[name]
		built, err := c.topic(r, t, alive, last)
		if err != nil {
			faults = append(faults, fmt.Errorf("topic %s: %w", t.Name, err))
		}
		if built.topic == nil {
			if topicID, err := id(t.UID); err == nil {
				unresolved = append(unresolved, topicID)
			}
			continue
		}
		next.topics[t.UID] = built
		// Omit a new topic without partitions: it cannot be used yet, and clients would treat it as
		// broken. But keep a topic of the last image: even if its entries have been removed, its records
		// must be kept.
		if len(built.topic.Partitions) > 0 || last != nil && last.TopicByID(built.topic.ID) != nil {
			topics = append(topics, built.topic)
		}
	}
	next.security = c.security
	*c = next
	brokers := slices.Collect(maps.Values(alive))
	image = metadata.NewImage(clusterID.String(), metadata.ResolveCleaner(r.cluster), brokers,
		topics).WithPolicies(r.cluster)
	image.Retained, image.Unresolved = r.sets.retained, unresolved
	security, invalid := c.security.security(r)
	image.Security = security
	return image, slices.Concat(faults, r.sets.faults, invalid)
}

// topic builds a topic. If nothing has changed, it returns the previous image's topic.
func (c *imageCache) topic(r resources, t *v1alpha1.Topic, alive map[int32]metadata.Broker,
	last *metadata.Image) (next cachedTopic, err error) {
	topicID, err := id(t.UID)
	if err != nil {
		return cachedTopic{}, err
	}
	next.version = topicVersion{r.cluster.UID, r.cluster.Generation, t.Generation, t.Name,
		t.CleanNow(), true}
	before := c.topics[t.UID]
	if before.topic != nil && before.version.generation == t.Generation &&
		before.version.name == t.Name {
		next.slots = r.sets.changedSlots(t, partitionset.Tag(topicID), before.slots, c.sets)
	} else {
		next.slots = r.sets.slots(t, partitionset.Tag(topicID))
	}
	var partitions []*metadata.Partition
	if before.topic != nil {
		partitions = before.topic.Partitions
	}
	sameBrokers := maps.Equal(c.alive, alive)
	if !sameBrokers || !slices.Equal(before.slots, next.slots) {
		partitions = before.update(next.slots, alive, sameBrokers)
	}
	if before.topic != nil && before.version == next.version {
		next.topic = before.topic
		if !slices.Equal(partitions, before.topic.Partitions) {
			changed := *before.topic
			changed.Partitions, next.topic = partitions, &changed
		}
		return next, nil
	}
	next.topic, err = r.topic(t, topicID, last)
	next.version.valid = err == nil
	if next.topic != nil {
		next.topic.Partitions = partitions
	}
	return next, err
}

// byKafkaName returns the cluster's Topics that are not being deleted, by Kafka name. If several
// Topics have the same Kafka name, the oldest one counts, as in the operator.
func (r resources) byKafkaName() map[string]*v1alpha1.Topic {
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

// topic resolves a Topic without its partitions. If the Topic's settings are invalid, it returns
// the last image's topic together with the error.
func (r resources) topic(t *v1alpha1.Topic, topicID metadata.ID,
	last *metadata.Image) (*metadata.Topic, error) {
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

// slot contains what the PartitionSets store for one partition of a topic. Two equal slots have the
// same content, because entries are immutable.
type slot struct {
	entry    partitionset.Entry
	unusable bool // true if the entry cannot be used; see partitionSets.find
}

// slots returns a topic's partitions by index, up to the highest existing index. It ignores entries
// for an earlier topic with the same name, which has another tag: the operator has not assigned
// these partitions to the new topic yet. It also ignores entries beyond the topic's number of
// partitions, because they belong to an earlier topic with more partitions.
func (p partitionSets) slots(t *v1alpha1.Topic, tag string) []slot {
	all := make([]slot, t.Spec.Partitions)
	for index := range all {
		all[index] = p.slot(t, tag, int32(index))
	}
	return existing(all)
}

// changedSlots is like slots, for a Topic whose slots in the previous sets are known: before
// contains these slots, and last the sets. It reads only sets that have changed. With thousands of
// partitions, most changes affect only one set.
func (p partitionSets) changedSlots(t *v1alpha1.Topic, tag string, before []slot,
	last partitionSets) []slot {
	if p.count == 0 || p.count != last.count {
		return p.slots(t, tag)
	}
	all, copied := before, false
	for number := range p.count {
		if p.byIndex[number] == last.byIndex[number] {
			continue
		}
		if !copied {
			all, copied = make([]slot, t.Spec.Partitions), true
			copy(all, before)
		}
		for index := range partitionset.Indexes(t.Name, number, p.count, t.Spec.Partitions) {
			all[index] = p.slot(t, tag, index)
		}
	}
	return existing(all)
}

// slot returns the slot of a partition.
func (p partitionSets) slot(t *v1alpha1.Topic, tag string, index int32) slot {
	entry, unusable := p.find(partitionset.Key{Topic: t.Name, Index: index})
	if entry.Assignment != nil && entry.Assignment.Tag != tag {
		return slot{}
	}
	return slot{entry, unusable}
}

// existing returns the slots up to the highest partition that exists.
func existing(all []slot) []slot {
	for len(all) > 0 {
		if last := all[len(all)-1]; last.entry.Assignment != nil || last.unusable {
			break
		}
		all = all[:len(all)-1]
	}
	return all
}

// update returns the partitions for new slots. It reuses the partitions that have not changed.
// sameBrokers is true if the topic was built with the same brokers as alive.
func (c cachedTopic) update(slots []slot, alive map[int32]metadata.Broker,
	sameBrokers bool) []*metadata.Partition {
	all := make([]*metadata.Partition, len(slots))
	for index, slot := range slots {
		var before *metadata.Partition
		if c.topic != nil && index < len(c.topic.Partitions) {
			before = c.topic.Partitions[index]
		}
		if sameBrokers && before != nil && index < len(c.slots) && c.slots[index] == slot {
			all[index] = before
			continue
		}
		// If an entry has become unusable, keep the partition unchanged. A broker that serves it is then
		// in the same situation as a broker whose watch is interrupted.
		if slot.unusable && before != nil {
			all[index] = stillLed(before, alive)
			continue
		}
		all[index] = &metadata.Partition{Index: int32(index), Leader: metadata.NoBroker}
		if !slot.unusable {
			fillPartition(all[index], slot.entry, alive)
		}
		if before != nil && before.Equal(all[index]) {
			all[index] = before
		}
	}
	return all
}

// stillLed returns a partition of the previous image. If the broker epoch in which the leader was
// elected is not alive, the result has no leader.
func stillLed(p *metadata.Partition, alive map[int32]metadata.Broker) *metadata.Partition {
	if p.Leader == metadata.NoBroker {
		return p
	}
	index := slices.Index(p.ISR, p.Leader)
	leader, up := alive[p.Leader]
	if up && index >= 0 && p.ISREpochs[index] == leader.Epoch {
		return p
	}
	offline := *p
	offline.Leader = metadata.NoBroker
	return &offline
}

// fillPartition copies replicas, their incarnation ids and the ISR from an entry. It copies the
// leader if the elected broker epoch is alive. It leaves a partition without an assignment
// unchanged: such an entry is only a placeholder for a missing partition, and has no replicas.
func fillPartition(to *metadata.Partition, from partitionset.Entry,
	alive map[int32]metadata.Broker) {
	if from.Assignment == nil {
		return
	}
	placed := from.Placed()
	to.Replicas = placed.Replicas
	if !slices.Equal(to.Replicas, placed.Target) {
		to.Target = placed.Target
	}
	for index, broker := range to.Replicas {
		if incarnation := placed.ReplicaIncarnations[broker]; incarnation != "" {
			if to.ReplicaIncarnations == nil {
				to.ReplicaIncarnations = make([]string, len(to.Replicas))
			}
			to.ReplicaIncarnations[index] = incarnation
		}
	}
	to.LeaderEpoch, to.UnprovenEpoch = placed.LeaderEpoch, placed.UnprovenEpoch
	if from.State != nil {
		to.PartitionEpoch = from.State.Changes
	}
	to.SetISR(placed.Leader, placed.ISR, alive)
	for _, member := range placed.ISR {
		// A broker leads only in the broker epoch in which it was elected; see doc.go.
		if broker, ok := alive[member.Broker]; ok && member.Broker == placed.Leader &&
			member.Epoch == broker.Epoch {
			to.Leader = member.Broker
		}
	}
}

// id converts a resource's uid to a Kafka topic id, which consists of the same 16 bytes (ADR 0002).
func id(uid types.UID) (metadata.ID, error) {
	parsed, err := uuid.Parse(string(uid))
	if err != nil {
		return metadata.ID{}, fmt.Errorf("parse uid %q: %w", uid, err)
	}
	return metadata.ID(parsed), nil
}
