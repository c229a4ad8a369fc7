package consumer

import (
	"maps"
	"slices"
	"time"
)

// Leave takes a member out, or, if it is static and comes back, only has it be away: what it was
// assigned stays its until its session is over.
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

// RemoveInstance takes out the member of an instance id, as an admin asks for.
func (g *Group) RemoveInstance(instance string) ([]Record, error) {
	if m := g.members[g.instances[instance]]; m != nil {
		return g.remove(m), nil
	}
	return nil, ErrUnknownMember
}

// Expire takes out a member that was not heard of, or has not given up partitions, in time.
func (g *Group) Expire(now time.Time, memberID string) []Record {
	if due, ok := g.Due(memberID); !ok || now.Before(due) {
		return nil
	}
	return g.remove(g.members[memberID])
}

// remove is the records that take a member out. The others are told by the next epoch, for which
// the next heartbeat makes targets.
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

// Tombstones is the tombstones of all that is stored of the group; that of the group itself is the last.
func (g *Group) Tombstones() (records []Record) {
	bury := func(kind int16, of string) {
		records = append(records,
			Record{Key: Key{kind, g.ID, of}.append()})
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		bury(kindCurrent, id)
		bury(kindMember, id)
	}
	for _, id := range slices.Sorted(maps.Keys(g.targets)) {
		bury(kindTarget, id)
	}
	for _, expression := range slices.Sorted(maps.Keys(g.resolved)) {
		bury(kindExpression, expression)
	}
	bury(kindAssignment, "")
	bury(kindGroup, "")
	return records
}
