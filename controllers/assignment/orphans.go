package assignment

import (
	"slices"

	"heartwood.dev/heartwood/internal/partitionset"
)

// reclaimOrphans plans what happens to entries of partitions that no Topic has: those of deleted
// Topics, and those of an earlier Topic with more partitions. With reclaimPolicy Retain they are
// kept and marked as retained: they state which brokers store the records. Otherwise they are
// removed.
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
			retained := *a
			retained.Reclaim = partitionset.Retained
			p.assign = append(p.assign, assignmentChange{key, a, &retained})
		}
	}
}

// owned reports whether assignTopic decides about an entry. An entry of a refused Topic is owned if
// it belongs to this Topic, which may serve while it is refused; an entry of an earlier Topic is
// not.
func (p *planner) owned(key partitionset.Key, entry partitionset.Entry) bool {
	o, exists := p.owners[key.Topic]
	if !exists || key.Index >= o.topic.Spec.Partitions {
		return false
	}
	return !o.refused || entry.Assignment == nil || entry.Assignment.Tag == o.tag
}
