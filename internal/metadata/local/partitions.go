package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// newSet returns a set without entries.
func newSet() *partitionset.Set {
	set, _ := partitionset.Decode(&v1alpha1.PartitionSet{}, nil) // an empty set contains no faults
	return set
}

// decodeSet decodes the partitions in a file. Unlike the stores of a Kubernetes cluster, it rejects
// a file with an invalid entry, because the user can restore or correct the file.
func (d *document) decodeSet() error {
	resource := v1alpha1.PartitionSet{
		Spec: v1alpha1.PartitionSetSpec{Assignments: d.Assignments},
		Status: v1alpha1.PartitionSetStatus{Partitions: d.Partitions,
			Directories: d.Directories},
	}
	set, faults := partitionset.Decode(&resource, nil)
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	d.set, d.load = set, map[int32]int{}
	for _, entry := range set.All() {
		d.count(entry.Assignment, 1)
	}
	d.Assignments, d.Partitions, d.Directories = nil, nil, nil
	return nil
}

// count adds the replicas in an assignment to load, or subtracts them if sign is -1. It ignores
// replicas of deleted topics.
func (d *document) count(a *partitionset.Assignment, sign int) {
	if a == nil || a.Reclaim.Orphaned() {
		return
	}
	for _, id := range a.Replicas {
		d.load[id] += sign
	}
}

// assignPartition sets the assignment of a partition.
func (d *document) assignPartition(key partitionset.Key, a partitionset.Assignment) {
	before, _ := d.set.Get(key)
	d.count(before.Assignment, -1)
	d.count(&a, 1)
	d.set.Assign(key, a)
}

// removePartition removes a partition and its state.
func (d *document) removePartition(key partitionset.Key) {
	before, _ := d.set.Get(key)
	d.count(before.Assignment, -1)
	d.set.Unassign(key)
	d.set.RemoveState(key)
}

// key returns a partition's key. It contains the Kafka name, because a manifest can take over a
// topic that was created through Kafka under another resource name.
func (t topic) key(index int32) partitionset.Key {
	return partitionset.Key{Topic: t.kafkaName(), Index: index}
}

// keysOf returns the keys of a topic's partitions, and of the retained partitions with higher
// indexes. The indexes are consecutive.
func (d *document) keysOf(kafkaName string) (keys []partitionset.Key) {
	for key := (partitionset.Key{Topic: kafkaName}); ; key.Index++ {
		if _, exists := d.set.Get(key); !exists {
			return keys
		}
		keys = append(keys, key)
	}
}

// tag returns the tag of the topic's id.
func (t topic) tag() string {
	id, err := metadata.ParseID(t.ID)
	if err != nil {
		return "" // check rejects a topic with an invalid id
	}
	return partitionset.Tag(id)
}

// assignment returns the entry that assigns a partition of the topic to brokers.
func (t topic) assignment(replicas []int32) partitionset.Assignment {
	a := partitionset.Assignment{Replicas: replicas, Tag: t.tag()}
	if t.Spec.ReclaimPolicy == v1alpha1.ReclaimDelete {
		a.Reclaim = partitionset.Delete
	}
	return a
}

// placed returns a partition in the form that package placement uses. Target is nil unless a
// reassignment is in progress.
func (d document) placed(key partitionset.Key) placement.Partition {
	entry, _ := d.set.Get(key)
	p := entry.Placed()
	if slices.Equal(p.Target, p.Replicas) {
		p.Target = nil
	}
	return p
}

// isRetained reports whether a partition belongs to a deleted topic whose records are retained.
func isRetained(entry partitionset.Entry) bool {
	return entry.Assignment != nil && entry.Assignment.Reclaim == partitionset.Retained
}

// onBrokers returns a retained partition restricted to brokers with ids below brokers. ok is false
// if none of these brokers was in sync.
func onBrokers(entry partitionset.Entry, brokers int) (_ planned, ok bool) {
	removed := func(id int32) bool { return int(id) >= brokers }
	p := entry.Placed()
	p.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), removed)
	p.ISR = slices.DeleteFunc(slices.Clone(p.ISR),
		func(m placement.InSyncReplica) bool { return removed(m.Broker) })
	p.ReplicaIncarnations = maps.Clone(p.ReplicaIncarnations)
	maps.DeleteFunc(p.ReplicaIncarnations, func(id int32, _ string) bool { return removed(id) })
	if len(p.Replicas) == 0 || p.LeaderEpoch > 0 && len(p.ISR) == 0 {
		return planned{}, false
	}
	adopted := planned{replicas: p.Replicas}
	if entry.State != nil {
		state := *entry.State
		state.Partition = placement.Retire(p)
		state.Serving, state.Prefer = false, 0
		adopted.state = &state
	}
	return adopted, true
}

// checkEntries checks the document's partitions.
func (d document) checkEntries() error {
	topics := map[string]topic{}
	for _, t := range d.Topics {
		topics[t.kafkaName()] = t
		for i := range t.Spec.Partitions {
			if entry, _ := d.set.Get(t.key(i)); entry.Assignment == nil {
				return fmt.Errorf("topic %q: partition %d has no assignment", t.kafkaName(), i)
			}
		}
	}
	for _, key := range d.set.Keys() {
		entry, _ := d.set.Get(key)
		t, exists := topics[key.Topic]
		err := metadata.CheckTopicName(key.Topic)
		switch {
		case err != nil:
		case entry.Assignment == nil:
			err = errors.New("state without an assignment")
		case entry.Assignment.Reclaim.Orphaned():
			if exists && key.Index < t.Spec.Partitions {
				err = errors.New("retained, but the topic exists")
			}
		case !exists || key.Index >= t.Spec.Partitions:
			err = errors.New("neither retained nor a partition of a topic")
		case entry.Assignment.Tag != t.tag():
			err = fmt.Errorf("belongs to topic %s, the id of the topic is %s",
				entry.Assignment.Tag, t.ID)
		default:
			err = checkBrokers(entry, d.running())
		}
		// During a removal, brokers leave the ISR and the replicas one after the other.
		if !isRemoving(entry) {
			err = errors.Join(err, checkEntry(entry))
		}
		if err != nil {
			return fmt.Errorf("partition %s: %w", key, err)
		}
	}
	return nil
}

// checkBrokers checks that a partition is only on brokers with ids below brokers.
func checkBrokers(entry partitionset.Entry, brokers int) error {
	p := entry.Placed()
	for _, id := range slices.Concat(p.Replicas, p.Target) {
		if int(id) >= brokers {
			return fmt.Errorf("replicas %v, target %v: brokers must be from 0 to %d", p.Replicas,
				p.Target, brokers-1)
		}
	}
	return nil
}

// checkEntry checks those invariants of a partition that its encoding does not imply. The ISR must
// not be empty once the partition has had a leader.
func checkEntry(entry partitionset.Entry) error {
	p := entry.Placed()
	members := memberIDs(p)
	switch {
	case p.UnprovenEpoch > p.LeaderEpoch:
		return fmt.Errorf("leader epoch %d, unproven epoch %d", p.LeaderEpoch, p.UnprovenEpoch)
	case (p.LeaderEpoch == 0) != (len(members) == 0):
		return fmt.Errorf("ISR %v in leader epoch %d: must be empty exactly before the first "+
			"election", members, p.LeaderEpoch)
	case p.Leader != placement.NoLeader && !slices.Contains(members, p.Leader):
		return fmt.Errorf("leader %d is not in the ISR %v", p.Leader, members)
	}
	return nil
}

// memberIDs returns the ids of the brokers in the ISR.
func memberIDs(p placement.Partition) []int32 {
	all := make([]int32, 0, len(p.ISR))
	for _, m := range p.ISR {
		all = append(all, m.Broker)
	}
	return all
}
