package consumer

import "time"

// Replay applies a stored record of the group. A nil value is a tombstone. Records must be replayed
// in log order. In a compacted log, records with different keys can be in any order, so the replay
// of a record does not depend on records with other keys.
func (g *Group) Replay(now time.Time, session time.Duration, k Key, value []byte) (err error) {
	switch k.Kind {
	case kindGroup:
		var v groupValue
		if value != nil {
			v, err = readGroup(value)
		}
		g.stored, g.epoch, g.hash = value != nil && err == nil, v.epoch, v.hash
	case kindAssignment:
		var v assignmentValue
		if value != nil {
			v, err = readAssignment(value)
		}
		g.assignmentEpoch, g.assignedMs = v.epoch, v.assignedMs
	case kindMember:
		err = g.replayMember(now, session, k.ID, value)
	case kindTarget:
		delete(g.targets, k.ID)
		if value != nil {
			g.targets[k.ID], err = readTarget(value)
		}
	case kindCurrent:
		err = g.replayCurrent(now, k.ID, value)
	case kindExpression:
		delete(g.resolved, k.ID)
		if value != nil {
			g.resolved[k.ID], err = readResolved(value)
		} else {
			delete(g.patterns, k.ID)
		}
	}
	return err
}

// memberOrNew returns the member with the given id, and creates it if it does not exist. In a
// compacted log, any of the member's records may be the first.
func (g *Group) memberOrNew(now time.Time, session time.Duration, id string) *Member {
	m := g.members[id]
	if m == nil {
		m = &Member{ID: id, deadline: now.Add(session)}
		g.members[id] = m
	}
	return m
}

func (g *Group) replayMember(now time.Time, session time.Duration, id string, value []byte) error {
	if value == nil {
		m := g.members[id]
		if m == nil {
			return nil
		}
		g.removeOwner(m)
		if g.instances[m.Instance] == id {
			delete(g.instances, m.Instance)
		}
		delete(g.members, id)
		return nil
	}
	p, err := readProfile(value)
	if err != nil {
		return err
	}
	m := g.memberOrNew(now, session, id)
	if m.Instance != "" && g.instances[m.Instance] == id {
		delete(g.instances, m.Instance)
	}
	m.Profile = p
	if p.Instance != "" {
		g.instances[p.Instance] = id
	}
	return nil
}

func (g *Group) replayCurrent(now time.Time, id string, value []byte) error {
	m := g.members[id]
	if value == nil {
		if m == nil {
			return nil
		}
		g.removeOwner(m)
		m.Current, m.revokeBy = Current{}, time.Time{}
		return nil
	}
	c, err := readCurrent(value)
	if err != nil {
		return err
	}
	if m == nil {
		// The member can be missing only during loading. Loaded starts its session.
		m = g.memberOrNew(now, 0, id)
	}
	g.removeOwner(m)
	m.Current = c
	if !g.loading {
		g.addOwner(m)
	}
	m.startRevoking(now)
	return nil
}
