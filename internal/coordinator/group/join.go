package group

import "time"

// Join asks to be a member of the next generation.
type Join struct {
	To               Token
	Group            string
	Member, Instance string // "": has none
	NewMember        string // the id it gets if it has none; nobody else's
	ClientID         string
	ClientHost       string
	Session          time.Duration
	Rebalance        time.Duration
	ProtocolType     string
	Protocols        []Protocol
	IDFirst          bool // it will come again with the id that it is given (KIP-394; JoinGroup 4)
	MaySkip          bool // it knows that a leader may be told not to assign (KIP-814; JoinGroup 9)
}

// Joined is the answer to a Join.
type Joined struct {
	Generation     int32
	ProtocolType   string
	Protocol       string
	Leader         string
	Member         string
	SkipAssignment bool
	Members        []JoinedMember // for the leader only
}

// JoinedMember is a member as the leader is told of it.
type JoinedMember struct {
	ID, Instance string
	Metadata     []byte
}

// Join takes one in; the answer may come much later, with another call.
func (s *State) Join(now time.Time, j Join) Output {
	if err := s.join(now, j); err != nil {
		id := j.Member
		if err == ErrMemberIDRequired { //nolint:errorlint // made below
			id = j.NewMember
		}
		s.answer(Answer{To: j.To, Err: err, Result: Result{Joined: Joined{Generation: -1, Member: id}}})
	}
	return s.take()
}

// join returns why j is refused at once.
func (s *State) join(now time.Time, j Join) error {
	if j.Session < s.config.SessionMin || j.Session > s.config.SessionMax {
		return ErrInvalidSession
	}
	g := s.groups[j.Group]
	if g != nil && g.consumer != nil {
		if err := s.turnClassic(g, j); err != nil {
			return err
		}
	}
	if g == nil {
		if j.Member != "" {
			return ErrUnknownMember
		}
		if !(&group{}).supports(j.ProtocolType, j.Protocols, nil) {
			return ErrInconsistentProtocol
		}
		g = s.newGroup(j.Group)
	}
	m := &member{
		id: j.Member, instance: j.Instance, clientID: j.ClientID, clientHost: j.ClientHost,
		session: j.Session, rebalance: j.Rebalance, protocols: j.Protocols, joining: j.To,
		isNew: true,
	}
	if !s.hasRoom(g, j, m) {
		return ErrGroupFull
	}
	if j.Member == "" {
		return s.joinAnew(now, g, m, j)
	}
	if _, promised := g.promised[j.Member]; promised && j.Instance == "" {
		if !g.supports(j.ProtocolType, j.Protocols, nil) {
			return ErrInconsistentProtocol
		}
		delete(g.promised, j.Member)
		s.addAndRebalance(now, g, m, j.ProtocolType)
		return nil
	}
	return s.joinAgain(now, g, j)
}

// hasRoom tells whether one more may come; those that are members are never too many.
func (s *State) hasRoom(g *group, j Join, m *member) bool {
	existing := g.byID[j.Member]
	if existing == nil && j.Instance != "" {
		existing = g.byID[g.instances[j.Instance]]
	}
	size := g.sizeBytes + m.sizeBytes()
	if existing != nil {
		size -= existing.sizeBytes()
	}
	if size > s.config.RecordBytesMax {
		return false
	}
	switch {
	case g.phase == empty:
		return true
	case g.phase == preparing && existing != nil && existing.joining != 0:
		return true
	case g.phase == preparing:
		return g.joiningCount() < s.config.MembersMax
	}
	return existing != nil || len(g.members) < s.config.MembersMax
}

// joinAnew is for one without a member id.
func (s *State) joinAnew(now time.Time, g *group, m *member, j Join) error {
	m.id = j.NewMember
	old := g.byID[g.instances[j.Instance]]
	switch {
	case !g.supports(j.ProtocolType, j.Protocols, old):
		return ErrInconsistentProtocol
	case j.Instance != "" && old != nil:
		s.replace(now, g, old, m, j.MaySkip)
	case j.Instance == "" && j.IDFirst:
		g.promised[m.id] = now.Add(j.Session)
		s.timers.Set(TimerKey{g.id, m.id}, j.Session)
		return ErrMemberIDRequired
	default:
		s.addAndRebalance(now, g, m, j.ProtocolType)
	}
	return nil
}

// joinAgain is for one that is a member already.
func (s *State) joinAgain(now time.Time, g *group, j Join) error {
	m, err := g.check(j.Member, j.Instance)
	switch {
	case err != nil:
		return err
	case !g.supports(j.ProtocolType, j.Protocols, m):
		return ErrInconsistentProtocol
	case g.phase == empty:
		return ErrUnknownMember
	case g.phase == completing && m.says(j.Protocols),
		g.phase == stable && m.says(j.Protocols) && g.leader != m.id:
		// The answer to its join was lost, or it has no news: it is told of this generation again.
		s.answer(Answer{To: j.To, Result: Result{Joined: g.joined(m)}})
		return nil
	}
	// an earlier try
	s.answer(Answer{To: m.joining, Err: ErrRebalanceInProgress,
		Result: Result{Joined: Joined{Generation: -1, Member: m.id}}})
	g.sizeBytes -= m.sizeBytes()
	m.protocols, m.session, m.rebalance, m.joining = j.Protocols, j.Session, j.Rebalance, j.To
	g.sizeBytes += m.sizeBytes()
	s.rebalanceOrComplete(now, g)
	return nil
}

// addAndRebalance takes in a new member.
func (s *State) addAndRebalance(now time.Time, g *group, m *member, protocolType string) {
	if g.phase == preparing && g.before == empty {
		g.newcomers = true
	}
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	g.add(m)
	s.beginSession(now, g, m, newMemberJoin)
	s.rebalanceOrComplete(now, g)
}

// replace gives a static member's place to one that comes with the same group.instance.id and no
// member id: the same process, started again. What it was assigned stays, and so does the
// generation if it says nothing new (KIP-345).
func (s *State) replace(now time.Time, g *group, old, m *member, maySkip bool) {
	s.fence(old)
	leader, unsynced, to := g.leader, g.unsynced[old.id], m.joining
	s.timers.Clear(TimerKey{g.id, old.id})
	at := 0
	for i, other := range g.members {
		if other == old {
			at = i
		}
	}
	m.assignment, m.isNew = old.assignment, false
	g.remove(old)
	g.add(m)
	// in its old place: it is not younger than before
	copy(g.members[at+1:], g.members[at:len(g.members)-1])
	g.members[at] = m
	if leader == old.id {
		g.leader = m.id
	} else {
		g.leader = leader
	}
	if unsynced {
		g.unsynced[m.id] = true
	}
	s.beginSession(now, g, m, m.session)
	if g.phase != stable || g.choose() != g.protocol {
		s.rebalanceOrComplete(now, g)
		return
	}
	m.joining = 0
	joined := g.joined(m)
	if !maySkip {
		// It must not assign anew, and an old client knows no other way to be told than that
		// another leads.
		joined.Leader, joined.Members = leader, nil
	} else {
		joined.SkipAssignment = g.leader == m.id
	}
	s.out.VolatileChanged = true
	s.store(g.record(now, func(m *member) []byte { return m.assignment }))
	s.answer(Answer{To: to, Result: Result{Joined: joined}})
}

// fence ends what a replaced member waits for.
func (s *State) fence(m *member) {
	s.answer(Answer{To: m.joining, Err: ErrFencedInstance,
		Result: Result{Joined: Joined{Generation: -1, Member: m.id}}})
	s.answer(Answer{To: m.syncing, Err: ErrFencedInstance})
	m.joining, m.syncing = 0, 0
}

// joined is what a member is told of the generation.
func (g *group) joined(m *member) Joined {
	j := Joined{Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol,
		Leader: g.leader, Member: m.id}
	if g.leader != m.id {
		return j
	}
	for _, other := range g.members {
		metadata, _ := other.metadata(g.protocol)
		j.Members = append(j.Members,
			JoinedMember{ID: other.id, Instance: other.instance, Metadata: metadata})
	}
	return j
}
