package group

import "time"

// Sync is a request for a member's assignment in a generation. The leader's Sync contains all
// assignments.
type Sync struct {
	To               Token
	Group            string
	Member, Instance string
	Generation       int32
	// ProtocolType and Protocol are "" if they were not sent (SyncGroup below 5).
	ProtocolType, Protocol string
	Assignments            map[string][]byte // assignments by member id; only in the leader's Sync
}

// Synced is the answer to a Sync.
type Synced struct {
	ProtocolType, Protocol string
	Assignment             []byte
}

// Sync handles a request for an assignment. The answer follows once the leader's assignments have
// been stored.
func (s *State) Sync(now time.Time, r Sync) Output {
	if err := s.sync(now, r); err != nil {
		s.answer(Answer{To: r.To, Err: err})
	}
	return s.take()
}

func (s *State) sync(now time.Time, r Sync) error {
	g, m, err := s.memberOf(r.Group, r.Member, r.Instance)
	switch {
	case err != nil:
		return err
	case g.generation != r.Generation:
		return ErrIllegalGeneration
	case r.ProtocolType != "" && r.ProtocolType != g.protocolType,
		r.Protocol != "" && r.Protocol != g.protocol:
		return ErrInconsistentProtocol
	case g.phase == preparing:
		return ErrRebalanceInProgress
	case g.phase == stable:
		delete(g.unsynced, m.id)
		m.syncing = r.To
		s.answerSync(now, g, m, nil)
		return nil
	}
	var record Record
	if g.leader == m.id {
		record = g.record(now, func(m *member) []byte { return r.Assignments[m.id] })
		if len(record.Value) > s.config.RecordBytesMax {
			return ErrRecordTooLarge
		}
	}
	// An earlier Sync of the member may still be waiting.
	s.answer(Answer{To: m.syncing, Err: ErrRebalanceInProgress})
	delete(g.unsynced, m.id)
	m.syncing = r.To
	if record.Key != nil {
		s.out.VolatileChanged = true
		s.store(record)
	}
	return nil
}

// memberOf returns a group and one of its members, or an error if the member is unknown or fenced.
func (s *State) memberOf(groupID, memberID, instance string) (*group, *member, error) {
	g := s.groups[groupID]
	if g == nil {
		return nil, nil, ErrUnknownMember
	}
	m, err := g.check(memberID, instance)
	return g, m, err
}

// answerSync answers a member's Sync, if one is waiting, and restarts the member's session.
func (s *State) answerSync(now time.Time, g *group, m *member, err error) {
	if m.syncing == 0 {
		return
	}
	a := Answer{To: m.syncing, Err: err}
	if err == nil {
		a.Result.Synced = Synced{g.protocolType, g.protocol, m.assignment}
	}
	m.syncing = 0
	s.answer(a)
	s.beginSession(now, g, m, m.session)
}

// Heartbeat renews a member's session. It returns ErrRebalanceInProgress if the member must join
// again.
func (s *State) Heartbeat(now time.Time, groupID, memberID, instance string,
	generation int32) error {
	g, m, err := s.memberOf(groupID, memberID, instance)
	switch {
	case err != nil:
		return err
	case g.generation != generation:
		return ErrIllegalGeneration
	}
	s.beginSession(now, g, m, m.session)
	if g.phase == preparing {
		return ErrRebalanceInProgress
	}
	return nil
}

// Leaver identifies a member to remove: by its member id or, in an administrator's request, only by
// its group.instance.id.
type Leaver struct {
	Member, Instance string
}

// Leave removes members from a group. It returns one error per leaver, in the order of leavers.
func (s *State) Leave(now time.Time, groupID string, leavers []Leaver) (errs []error, out Output) {
	g := s.groups[groupID]
	errs = make([]error, len(leavers))
	left, pending := false, false
	for i, l := range leavers {
		if g == nil {
			errs[i] = ErrUnknownMember
			continue
		}
		if g.consumer != nil {
			errs[i] = s.leaveConsumer(g, l)
			continue
		}
		if g.isPending(l.Member) && l.Instance == "" {
			delete(g.pendingIDs, l.Member)
			s.timers.Clear(TimerKey{g.id, l.Member})
			pending = true
			continue
		}
		if l.Member == "" && l.Instance != "" {
			l.Member = g.instances[l.Instance]
		}
		m, err := g.check(l.Member, l.Instance)
		if errs[i] = err; err == nil {
			s.removeMember(g, m)
			left = true
		}
	}
	if left || pending {
		s.afterRemoval(now, g, left)
	}
	return errs, s.take()
}
