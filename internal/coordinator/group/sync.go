package group

import "time"

// Sync asks for what a member was assigned in a generation; the leader's brings it.
type Sync struct {
	To                     Token
	Group                  string
	Member, Instance       string
	Generation             int32
	ProtocolType, Protocol string            // "": it does not say (before SyncGroup 5)
	Assignments            map[string][]byte // by member id; of the leader only
}

// Synced is the answer to a Sync.
type Synced struct {
	ProtocolType, Protocol string
	Assignment             []byte
}

// Sync waits for the leader's, which is stored first.
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
	s.answer(Answer{To: m.syncing, Err: ErrRebalanceInProgress}) // an earlier try
	delete(g.unsynced, m.id)
	m.syncing = r.To
	if record.Key != nil {
		s.out.VolatileChanged = true
		s.store(record)
	}
	return nil
}

// memberOf finds a member in a group that has members.
func (s *State) memberOf(groupID, memberID, instance string) (*group, *member, error) {
	g := s.groups[groupID]
	if g == nil {
		return nil, nil, ErrUnknownMember
	}
	m, err := g.check(memberID, instance)
	return g, m, err
}

// answerSync answers a member that waits to sync, whose heartbeats begin again then.
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

// Heartbeat says that a member lives; the error tells it what to do.
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

// Leaver is one that leaves: by its id, or by its group.instance.id alone (an admin's doing).
type Leaver struct {
	Member, Instance string
}

// Leave takes members out; errors are in their order. err: there is no such group.
func (s *State) Leave(now time.Time, groupID string, leavers []Leaver) (errs []error, out Output) {
	g := s.groups[groupID]
	errs = make([]error, len(leavers))
	left, promised := false, false
	for i, l := range leavers {
		if g == nil {
			errs[i] = ErrUnknownMember
			continue
		}
		if g.consumer != nil {
			errs[i] = s.leaveConsumer(g, l)
			continue
		}
		if _, was := g.promised[l.Member]; was && l.Instance == "" {
			delete(g.promised, l.Member)
			s.timers.Clear(TimerKey{g.id, l.Member})
			promised = true
			continue
		}
		if l.Member == "" && l.Instance != "" {
			l.Member = g.instances[l.Instance]
		}
		m, err := g.check(l.Member, l.Instance)
		if errs[i] = err; err == nil {
			s.expel(g, m)
			left = true
		}
	}
	if left || promised {
		s.goneFrom(now, g, left)
	}
	return errs, s.take()
}
