package kube

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// partitionSets contains the LogCluster's decoded PartitionSets. They are read-only.
type partitionSets struct {
	count   int32 // number of sets that the LogCluster has (spec.count); 0 if none exists
	byIndex map[int32]*partitionset.Set
	// faults describes entries that cannot be parsed, and sets that contradict others.
	faults []error
	// retained contains the retained partitions of all sets.
	retained []metadata.RetainedPartition
}

// complete reports whether all sets of the LogCluster exist.
func (p partitionSets) complete() bool { return p.count > 0 && len(p.byIndex) == int(p.count) }

// contain reports whether p contains every partition in other.
func (p partitionSets) contain(other partitionSets) bool {
	for index, set := range other.byIndex {
		mine := p.byIndex[index]
		if mine == nil {
			return false
		}
		for key := range set.All() {
			if _, ok := mine.Get(key); !ok && !mine.Invalid(key) {
				return false
			}
		}
		for _, key := range set.InvalidKeys() {
			if _, ok := mine.Get(key); !ok && !mine.Invalid(key) {
				return false
			}
		}
	}
	return true
}

// find returns a partition's entry. unusable is true if the set is missing, or if its entry for the
// partition cannot be used because it cannot be parsed or has a state without an assignment.
func (p partitionSets) find(key partitionset.Key) (entry partitionset.Entry, unusable bool) {
	if p.count == 0 {
		return partitionset.Entry{}, false
	}
	set := p.byIndex[partitionset.Number(key, p.count)]
	if set == nil {
		return partitionset.Entry{}, true // the operator will restore the deleted set
	}
	entry, _ = set.Get(key)
	if entry.Assignment == nil || entry.State == nil {
		unusable = set.Invalid(key) || entry.Assignment == nil && entry.State != nil
	}
	return entry, unusable
}

// decodedSets caches each PartitionSet in decoded form. It decodes only the entries that have
// changed since the cached version.
type decodedSets struct {
	mu struct {
		sync.Mutex
		byName map[string]decodedSet
	}
}

// decodedSet is one version of a PartitionSet in decoded form.
type decodedSet struct {
	uid     types.UID
	version string // metadata.resourceVersion of the version
	set     *partitionset.Set
	faults  []error
	// retained contains the set's retained partitions.
	retained []metadata.RetainedPartition
}

// decode returns the decoded sets of a LogCluster. resources contains the cached PartitionSets.
func (d *decodedSets) decode(cluster string, resources []*v1alpha1.PartitionSet) partitionSets {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := partitionSets{byIndex: make(map[int32]*partitionset.Set, len(resources))}
	next := make(map[string]decodedSet, len(resources))
	// Sort the sets, so that the same faults have the same text.
	sorted := slices.Clone(resources)
	slices.SortFunc(sorted,
		func(a, b *v1alpha1.PartitionSet) int { return int(a.Spec.Index - b.Spec.Index) })
	for _, resource := range sorted {
		spec := resource.Spec
		if spec.Cluster != cluster ||
			resource.Name != v1alpha1.PartitionSetName(cluster, spec.Index) {
			continue
		}
		if all.count == 0 {
			all.count = spec.Count
		}
		if spec.Count != all.count || spec.Index < 0 || spec.Index >= spec.Count {
			all.faults = append(all.faults, fmt.Errorf("PartitionSet %s: set %d of %d does not "+
				"belong to the %d sets of the LogCluster", resource.Name, spec.Index, spec.Count,
				all.count))
			continue
		}
		known := d.mu.byName[resource.Name]
		if known.uid != resource.UID || known.version != resource.ResourceVersion ||
			known.set == nil {
			set, faults := partitionset.Decode(resource, known.set)
			known = decodedSet{resource.UID, resource.ResourceVersion, set, faults, set.Retained()}
		}
		next[resource.Name] = known
		all.byIndex[spec.Index] = known.set
		all.retained = append(all.retained, known.retained...)
		for _, fault := range known.faults {
			all.faults = append(all.faults,
				fmt.Errorf("PartitionSet %s: %w", resource.Name, fault))
		}
	}
	d.mu.byName = next
	slices.SortFunc(all.retained, metadata.RetainedPartition.Compare)
	return all
}

// directory maps partitions to the places where they are stored. It is immutable.
type directory struct {
	sets   []string // names of the PartitionSets
	topics map[metadata.ID]topicPlace
	image  *metadata.Image // metadata image that was built from the same resources; may be nil
}

// topicPlace is the part of a place that a topic's partitions have in common.
type topicPlace struct {
	name string // name of the Topic resource
	tag  string // tag of the topic's id
}

// directory returns the directory for the resources.
func (r resources) directory(image *metadata.Image) *directory {
	d := &directory{topics: make(map[metadata.ID]topicPlace, len(r.topics)), image: image}
	for index := range r.sets.count {
		d.sets = append(d.sets, v1alpha1.PartitionSetName(r.name, index))
	}
	for _, t := range r.topics {
		if topicID, err := id(t.UID); err == nil {
			d.topics[topicID] = topicPlace{t.Name, partitionset.Tag(topicID)}
		}
	}
	return d
}

// place returns the place where a partition is stored. ok is false if the topic is unknown.
func (d *directory) place(topic metadata.ID, partition int32) (_ place, ok bool) {
	if d == nil || len(d.sets) == 0 {
		return place{}, false
	}
	topicPlace, ok := d.topics[topic]
	key := partitionset.Key{Topic: topicPlace.name, Index: partition}
	return place{d.sets[partitionset.Number(key, int32(len(d.sets)))], key, topicPlace.tag}, ok
}

// place identifies the PartitionSet and the entry that store a partition.
type place struct {
	set string // name of the PartitionSet
	key partitionset.Key
	tag string // tag of the topic's id
}

// assigned reports whether a set contains the partition for the same topic. A Topic that was
// deleted and created again has the same keys. A broker may still lead a partition of the deleted
// Topic, in a leader epoch that also exists for the new Topic.
func (p place) assigned(set *partitionset.Set) bool {
	entry, _ := set.Get(p.key)
	return entry.Assignment != nil && entry.Assignment.Tag == p.tag
}
