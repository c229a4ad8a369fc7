package consumer

import "time"

// Replay takes in a record of the group that is stored, in the order of the log; a nil value is a
// tombstone. Records of one group may come in any order when a cleaned log is read: each stands for
// itself.
func (g *Group) Replay(now time.Time, session time.Duration, k Key, value []byte) (err error) {
	switch k.Kind {
	case kindGroup:
		var v groupValue
		if value != nil {
			v, err = readGroup(value)
		}
		g.kept, g.epoch, g.hash = value != nil && err == nil, v.epoch, v.hash
	case kindAssignment:
		var v assignmentValue
		if value != nil {
			v, err = readAssignment(value)
		}
		g.assignmentEpoch = v.epoch
	case kindMember:
		err = g.replayMember(now, session, k.Of, value)
	case kindTarget:
		delete(g.targets, k.Of)
		if value != nil {
			g.targets[k.Of], err = readTarget(value)
		}
	case kindCurrent:
		err = g.replayCurrent(now, k.Of, value)
	case kindExpression:
		delete(g.resolved, k.Of)
		if value != nil {
			g.resolved[k.Of], err = readResolved(value)
		} else {
			delete(g.patterns, k.Of)
		}
	}
	return err
}

// member returns a member, made if there is none: of a cleaned log any of its records may be the
// first.
func (g *Group) member(now time.Time, session time.Duration, id string) *Member {
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
		g.disown(m)
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
	m := g.member(now, session, id)
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
		g.disown(m)
		m.Current, m.revokeBy = Current{}, time.Time{}
		return nil
	}
	c, err := readCurrent(value)
	if err != nil {
		return err
	}
	if m == nil {
		m = g.member(now, 0, id) // Loaded begins its session
	}
	g.disown(m)
	m.Current = c
	if !g.loading {
		g.own(m)
	}
	m.startRevoking(now)
	return nil
}
