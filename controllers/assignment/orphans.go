package assignment

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// reclaimOrphans plans the changes of entries whose partition belongs to no Topic: the Topic was
// deleted, or an earlier Topic of the same name had more partitions. With reclaimPolicy Retain, an
// entry is kept and marked as retained, because it states which brokers store the records. If a
// user has consented to the removal of the records, the entry is marked, and the brokers remove the
// records. With reclaimPolicy Delete, the entry is removed.
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

// mark plans a change of a partition's reclaim policy.
func (p *planner) mark(key partitionset.Key, a *partitionset.Assignment,
	as partitionset.Reclaim) {
	next := *a
	next.Reclaim = as
	p.assign = append(p.assign, assignmentChange{key, a, &next})
}

// removing reports whether the records of a partition are being removed. This is the case for all
// partitions of a deleted topic once the removal of one of them has begun.
func (p *planner) removing(key partitionset.Key, entry partitionset.Entry) bool {
	a := entry.Assignment
	return a != nil && a.Reclaim.Orphaned() &&
		p.begun[v1alpha1.GivenUp{Topic: key.Topic, ID: a.Tag}]
}

// givenUp reports whether a user has consented to the removal of a partition's retained records. If
// the Topic exists again, all its records are kept, even in partitions beyond its current number of
// partitions.
func (p *planner) givenUp(key partitionset.Key, a *partitionset.Assignment) bool {
	if _, exists := p.owners[key.Topic]; exists || p.cluster == nil {
		return false
	}
	return slices.Contains(p.cluster.GivenUp(), v1alpha1.GivenUp{Topic: key.Topic, ID: a.Tag})
}

// leftBehind reports whether all replicas are on brokers that the LogCluster no longer has. No
// broker reads the volumes of such brokers.
func (p *planner) leftBehind(replicas []int32) bool {
	return p.cluster != nil && !slices.ContainsFunc(replicas,
		func(id int32) bool { return id < p.cluster.Spec.Brokers })
}

// owned reports whether assignTopic handles an entry. A Topic that the operator refuses can still
// serve clients, so it owns the entries with its own id, but not those of an earlier Topic.
func (p *planner) owned(key partitionset.Key, entry partitionset.Entry) bool {
	o, exists := p.owners[key.Topic]
	if !exists || key.Index >= o.topic.Spec.Partitions || p.removing(key, entry) {
		return false
	}
	return !o.refused || entry.Assignment == nil || entry.Assignment.Tag == o.tag
}
