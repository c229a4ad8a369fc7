package assignment

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// reclaimOrphans plans what happens to entries of partitions that no Topic has: those of deleted
// Topics, and those of an earlier Topic with more partitions. With reclaimPolicy Retain they are
// kept and marked as retained: they state which brokers store the records. If the records are given
// up, the entries are marked for the brokers to remove the records. Otherwise they are removed.
func (p *planner) reclaimOrphans() {
	var orphans []partitionset.Key
	for key, entry := range p.sets.All() {
		if !p.sets.Invalid(key) && !p.owned(key, entry) {
			orphans = append(orphans, key)
		}
	}
	slices.SortFunc(orphans, partitionset.Key.Compare)
	for _, key := range orphans {
		entry := p.sets.Get(key)
		a := entry.Assignment
		switch {
		case a == nil, a.Reclaim == partitionset.Delete && entry.State != nil:
			p.removed = append(p.removed, key)
		case a.Reclaim == partitionset.Delete:
			p.assign = append(p.assign, assignmentChange{key: key, before: a})
		case a.Reclaim == partitionset.Retain:
			p.mark(key, a, partitionset.Retained)
		case a.Reclaim == partitionset.Retained && (p.givenUp(key, a) || p.removing(key, entry)):
			p.mark(key, a, partitionset.Remove)
		case a.Reclaim == partitionset.Remove && entry.State == nil:
			p.assign = append(p.assign, assignmentChange{key: key, before: a})
		case a.Reclaim == partitionset.Remove && p.leftBehind(entry.State.Replicas):
			p.removed = append(p.removed, key)
		}
	}
}

// mark plans another reclaim policy of a partition.
func (p *planner) mark(key partitionset.Key, a *partitionset.Assignment,
	as partitionset.Reclaim) {
	next := *a
	next.Reclaim = as
	p.assign = append(p.assign, assignmentChange{key, a, &next})
}

// removing reports whether the records of a partition are being removed, or are those of a deleted
// topic of which another partition is being removed.
func (p *planner) removing(key partitionset.Key, entry partitionset.Entry) bool {
	a := entry.Assignment
	return a != nil && a.Reclaim.Orphaned() &&
		p.begun[v1alpha1.GivenUp{Topic: key.Topic, ID: a.Tag}]
}

// givenUp reports whether a person has given up the retained records of a partition. The records of
// a Topic that exists again are kept, also those in partitions above its present number.
func (p *planner) givenUp(key partitionset.Key, a *partitionset.Assignment) bool {
	if _, exists := p.owners[key.Topic]; exists || p.cluster == nil {
		return false
	}
	return slices.Contains(p.cluster.GivenUp(), v1alpha1.GivenUp{Topic: key.Topic, ID: a.Tag})
}

// leftBehind reports whether replicas are only on brokers that the LogCluster does not have any
// more, whose volumes nobody reads.
func (p *planner) leftBehind(replicas []int32) bool {
	return p.cluster != nil && !slices.ContainsFunc(replicas,
		func(id int32) bool { return id < p.cluster.Spec.Brokers })
}

// owned reports whether assignTopic decides about an entry. An entry of a refused Topic is owned if
// it belongs to this Topic, which may serve while it is refused; an entry of an earlier Topic is
// not.
func (p *planner) owned(key partitionset.Key, entry partitionset.Entry) bool {
	o, exists := p.owners[key.Topic]
	if !exists || key.Index >= o.topic.Spec.Partitions || p.removing(key, entry) {
		return false
	}
	return !o.refused || entry.Assignment == nil || entry.Assignment.Tag == o.tag
}
