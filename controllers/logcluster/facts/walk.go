package facts

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rollout"
	"heartwood.dev/heartwood/internal/placement"
)

// walk is the result of one pass over a LogCluster's partitions. A LogCluster can have ten thousand
// partitions, and each reconciliation needs the complete result. The result must not be changed.
type walk struct {
	tags        map[string]string // tag of each Topic's id, by Topic name
	replication Replication
	draining    Draining            // all fields except Unknown
	leaders     map[int32]int       // number of partitions that each broker leads
	inISR       map[int32]bool      // ids of brokers that are in any ISR
	stops       []rollout.Partition // input for rolling updates: partitions of existing Topics
	retained    []rollout.Partition // same, for partitions of deleted topics
	lent        int32
	assigned    []assigned  // assigned replicas of existing Topics
	lendable    []Partition // see Lendable
	orphaned    []Partition // see Orphaned
}

// assigned contains the assigned replicas of a partition.
type assigned struct {
	name     string
	replicas []int32
}

// Partition is a partition with its entry, and with its Topic if the Topic exists.
type Partition struct {
	partitionset.Key
	partitionset.Entry
	Topic *v1alpha1.Topic
}

// topicFacts contains the properties that a partition inherits from its Topic.
type topicFacts struct {
	tag    string
	minISR int
	lends  bool // see LendsTo
	object *v1alpha1.Topic
}

// walked returns the result of the walk. The walk happens at the first call, because most events of
// PartitionSets do not need the result.
func (s *Facts) walked() *walk {
	if s.partitions != nil {
		return s.partitions
	}
	w := &walk{tags: make(map[string]string, len(s.Topics)), leaders: map[int32]int{},
		inISR: map[int32]bool{}, draining: Draining{Brokers: s.Cluster.Spec.Brokers}}
	topics := make(map[string]topicFacts, len(s.Topics))
	for i := range s.Topics {
		topic := &s.Topics[i]
		known := topicFacts{tag: sets.Tag(topic.UID), minISR: 1, lends: s.LendsTo(topic),
			object: topic}
		if settings, err := metadata.SettingsOf(topic, s.Cluster); err == nil {
			known.minISR = settings.MinInSyncReplicas
		}
		topics[topic.Name], w.tags[topic.Name] = known, known.tag
		if metadata.Replicas(topic.Spec.TopicSettings, s.Cluster) > int(s.Cluster.Spec.Brokers) {
			w.draining.TooMany = append(w.draining.TooMany, topic.Name)
		}
	}
	for key, entry := range s.Sets.All() {
		topic := topics[key.Topic]
		w.addState(entry)
		w.draining.addRetained(entry, s.Cluster.Spec.Brokers)
		if entry.BelongsTo(topic.tag) {
			w.add(key, entry, topic)
			w.draining.add(key, entry, s.Cluster.Spec.Brokers)
		} else {
			w.retained = append(w.retained, rollout.Partition{Name: key.String(),
				Stop: placement.Stop{Replicas: entry.Brokers()}})
		}
		if a := entry.Assignment; a != nil && a.Reclaim.Orphaned() {
			w.orphaned = append(w.orphaned, Partition{Key: key, Entry: entry})
		}
	}
	slices.Sort(w.draining.TooMany)
	slices.Sort(w.draining.Partitions)
	s.partitions = w
	return w
}

// addState adds a partition's leader and ISR, even if the partition's Topic was deleted.
func (w *walk) addState(entry partitionset.Entry) {
	if entry.State == nil {
		return
	}
	if entry.State.Leader != placement.NoLeader {
		w.leaders[entry.State.Leader]++
	}
	for _, member := range entry.State.ISR {
		w.inISR[member.Broker] = true
	}
}

// add adds a partition of an existing Topic.
func (w *walk) add(key partitionset.Key, entry partitionset.Entry, topic topicFacts) {
	w.replication.add(key, entry)
	if entry.Lent {
		w.lent++
	}
	name := key.String()
	w.assigned = append(w.assigned, assigned{name, entry.Assignment.Replicas})
	if entry.State == nil {
		return
	}
	if entry.Lent || topic.lends {
		w.lendable = append(w.lendable, Partition{Key: key, Entry: entry, Topic: topic.object})
	}
	stop := placement.Stop{Replicas: entry.State.Replicas, MinISR: topic.minISR}
	for _, member := range entry.State.ISR {
		stop.InSync = append(stop.InSync, member.Broker)
	}
	w.stops = append(w.stops, rollout.Partition{Name: name, Stop: stop,
		// A partition without a leader cannot be copied, and does not serve clients.
		Lend: topic.lends && entry.State.Leader != placement.NoLeader})
}

// add adds a partition of an existing Topic.
func (r *Replication) add(key partitionset.Key, entry partitionset.Entry) {
	r.Partitions++
	if entry.UnderReplicated() {
		r.UnderReplicated++
	}
	if entry.Leaderless() {
		r.Leaderless++
	}
	switch {
	case entry.Reassigning():
		r.reassigning = append(r.reassigning, key)
	case entry.UnderReplicated():
		r.behind = append(r.behind, key)
	}
}

// addRetained adds a partition if it is retained and has a replica on a broker that is or was
// removed.
func (d *Draining) addRetained(entry partitionset.Entry, brokers int32) {
	if entry.Retained() && slices.ContainsFunc(entry.Brokers(),
		func(id int32) bool { return id >= brokers }) {
		d.Retained++
	}
}

// add adds a partition's replicas on brokers that are to be removed.
func (d *Draining) add(key partitionset.Key, entry partitionset.Entry, brokers int32) {
	held := int32(0)
	for _, id := range entry.Brokers() {
		if id >= brokers {
			held++
			d.Brokers = max(d.Brokers, id+1)
		}
	}
	if held > 0 {
		d.Partitions = append(d.Partitions, key.String())
	}
	d.Replicas += held
}
