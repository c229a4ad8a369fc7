package consumer

import (
	"maps"
	"slices"
	"time"
)

// Leave handles a heartbeat that leaves the group. A static member that leaves temporarily
// (EpochLeaveStatic) keeps its assigned partitions until its session expires.
func (g *Group) Leave(h *Heartbeat) (Answer, []Record, error) {
	m := g.members[h.Member]
	if h.Instance != nil {
		holder := g.members[g.instances[*h.Instance]]
		if holder != nil && holder.ID != h.Member {
			return Answer{}, nil, ErrFencedInstance
		}
		m = holder
	}
	if m == nil {
		return Answer{}, nil, ErrUnknownMember
	}
	if h.Epoch == EpochLeaveStatic {
		away := m.Current
		away.Previous, away.Epoch, away.Phase, away.Revoking = m.Epoch, EpochLeaveStatic, Stable,
			nil
		return Answer{Epoch: h.Epoch},
			[]Record{{Key{kindCurrent, g.ID, m.ID}.append(), away.append()}}, nil
	}
	return Answer{Epoch: h.Epoch}, g.remove(m), nil
}

// RemoveInstance returns the records that remove the member with the given instance id. It is
// called at the request of an administrator.
func (g *Group) RemoveInstance(instance string) ([]Record, error) {
	if m := g.members[g.instances[instance]]; m != nil {
		return g.remove(m), nil
	}
	return nil, ErrUnknownMember
}

// Expire returns the records that remove a member whose session or rebalance timeout has expired,
// or none if neither has expired.
func (g *Group) Expire(now time.Time, memberID string) []Record {
	if due, ok := g.Due(memberID); !ok || now.Before(due) {
		return nil
	}
	return g.remove(g.members[memberID])
}

// remove returns the records that remove a member and increment the group epoch. The next heartbeat
// of another member computes the new targets.
func (g *Group) remove(m *Member) []Record {
	records := []Record{
		{Key{kindGroup, g.ID, ""}.append(), groupValue{g.epoch + 1, g.hash}.append()},
		{Key: Key{kindCurrent, g.ID, m.ID}.append()},
		{Key: Key{kindTarget, g.ID, m.ID}.append()},
	}
	if _, resolved := g.resolved[m.Expression]; resolved {
		used := false
		for _, other := range g.members {
			used = used || other != m && other.Expression == m.Expression
		}
		if !used {
			records = append(records, Record{Key: Key{kindExpression, g.ID, m.Expression}.append()})
		}
	}
	return append(records, Record{Key: Key{kindMember, g.ID, m.ID}.append()})
}

// Tombstones returns tombstones for all records of the group. The group record's tombstone is the
// last one.
func (g *Group) Tombstones() (records []Record) {
	tombstone := func(kind int16, member string) {
		records = append(records,
			Record{Key: Key{kind, g.ID, member}.append()})
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		tombstone(kindCurrent, id)
		tombstone(kindMember, id)
	}
	for _, id := range slices.Sorted(maps.Keys(g.targets)) {
		tombstone(kindTarget, id)
	}
	for _, expression := range slices.Sorted(maps.Keys(g.resolved)) {
		tombstone(kindExpression, expression)
	}
	tombstone(kindAssignment, "")
	tombstone(kindGroup, "")
	return records
}
