package group

import "time"

// Join is a request to become a member of the group in its next generation.
type Join struct {
	To               Token
	Group            string
	Member, Instance string // member id and instance id; "" if the request contains none
	NewMember        string // unique id that the member gets if Member is empty
	ClientID         string
	ClientHost       string
	Session          time.Duration
	Rebalance        time.Duration
	ProtocolType     string
	Protocols        []Protocol
	// RequireMemberID means that a new member is first rejected with the member id with which it must
	// join again (KIP-394; JoinGroup 4).
	RequireMemberID bool
	// CanSkipAssignment is set if the client understands Joined.SkipAssignment (KIP-814; JoinGroup 9).
	CanSkipAssignment bool
}

// Joined is the answer to a Join.
type Joined struct {
	Generation     int32
	ProtocolType   string
	Protocol       string
	Leader         string
	Member         string
	SkipAssignment bool
	Members        []JoinedMember // members of the group; set only in the answer to the leader
}

// JoinedMember describes a member to the group's leader.
type JoinedMember struct {
	ID, Instance string
	Metadata     []byte
}

// Join handles a request to join. The answer may be part of the output of a later call.
func (s *State) Join(now time.Time, j Join) Output {
	if err := s.join(now, j); err != nil {
		id := j.Member
		if err == ErrMemberIDRequired { //nolint:errorlint // returned unwrapped
			id = j.NewMember
		}
		s.answer(Answer{To: j.To, Err: err,
			Result: Result{Joined: Joined{Generation: -1, Member: id}}})
	}
	return s.take()
}

// join is like Join, but returns an error if it rejects j at once.
func (s *State) join(now time.Time, j Join) error {
	if j.Session < s.config.SessionMin || j.Session > s.config.SessionMax {
		return ErrInvalidSession
	}
	g := s.groups[j.Group]
	if g != nil && g.consumer != nil {
		if err := s.convertToClassic(g, j); err != nil {
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
		return s.joinNew(now, g, m, j)
	}
	if g.isPending(j.Member) && j.Instance == "" {
		if !g.supports(j.ProtocolType, j.Protocols, nil) {
			return ErrInconsistentProtocol
		}
		delete(g.pendingIDs, j.Member)
		s.addAndRebalance(now, g, m, j.ProtocolType)
		return nil
	}
	return s.rejoin(now, g, j)
}

// hasRoom reports whether the join is within the limits for the number of members and for the size
// of the group's record. An existing member may always join again, unless the record would become
// too large.
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
		return g.joining() < s.config.MembersMax
	}
	return existing != nil || len(g.members) < s.config.MembersMax
}

// joinNew handles a join without a member id. j.NewMember is the new member's id.
func (s *State) joinNew(now time.Time, g *group, m *member, j Join) error {
	m.id = j.NewMember
	old := g.byID[g.instances[j.Instance]]
	switch {
	case !g.supports(j.ProtocolType, j.Protocols, old):
		return ErrInconsistentProtocol
	case j.Instance != "" && old != nil:
		s.replace(now, g, old, m, j.CanSkipAssignment)
	case j.Instance == "" && j.RequireMemberID:
		g.pendingIDs[m.id] = now.Add(j.Session)
		s.timers.Set(TimerKey{g.id, m.id}, j.Session)
		return ErrMemberIDRequired
	default:
		s.addAndRebalance(now, g, m, j.ProtocolType)
	}
	return nil
}

// rejoin handles a join that contains a member's id.
func (s *State) rejoin(now time.Time, g *group, j Join) error {
	m, err := g.check(j.Member, j.Instance)
	switch {
	case err != nil:
		return err
	case !g.supports(j.ProtocolType, j.Protocols, m):
		return ErrInconsistentProtocol
	case g.phase == empty:
		return ErrUnknownMember
	case g.phase == completing && m.hasProtocols(j.Protocols),
		g.phase == stable && m.hasProtocols(j.Protocols) && g.leader != m.id:
		// The member has missed the answer to its previous join, or joins again without a new
		// subscription. No rebalance is needed, so answer with the current generation again.
		s.answer(Answer{To: j.To, Result: Result{Joined: g.joined(m)}})
		return nil
	}
	// Fail the member's previous join, if it is still waiting.
	s.answer(Answer{To: m.joining, Err: ErrRebalanceInProgress,
		Result: Result{Joined: Joined{Generation: -1, Member: m.id}}})
	g.sizeBytes -= m.sizeBytes()
	m.protocols, m.session, m.rebalance, m.joining = j.Protocols, j.Session, j.Rebalance, j.To
	g.sizeBytes += m.sizeBytes()
	s.rebalanceOrComplete(now, g)
	return nil
}

// addAndRebalance adds a new member. It starts a rebalance, unless one is in progress in which the
// member can take part.
func (s *State) addAndRebalance(now time.Time, g *group, m *member, protocolType string) {
	if g.phase == preparing && g.previousPhase == empty {
		g.joinedInDelay = true
	}
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	g.add(m)
	s.beginSession(now, g, m, newMemberJoin)
	s.rebalanceOrComplete(now, g)
}

// replace replaces the static member old with m, which joins with the same group.instance.id and
// without a member id: it is the same process after a restart. m takes over old's assignment. If
// the selected protocol is unchanged, the group also keeps its generation (KIP-345).
func (s *State) replace(now time.Time, g *group, old, m *member, canSkipAssignment bool) {
	s.fence(old)
	leader, unsynced, to := g.leader, g.unsynced[old.id], m.joining
	s.timers.Clear(TimerKey{g.id, old.id})
	index := 0
	for i, other := range g.members {
		if other == old {
			index = i
		}
	}
	m.assignment, m.isNew = old.assignment, false
	g.remove(old)
	g.add(m)
	// Members are ordered by age. m takes the position of old.
	copy(g.members[index+1:], g.members[index:len(g.members)-1])
	g.members[index] = m
	if leader == old.id {
		g.leader = m.id
	} else {
		g.leader = leader
	}
	if unsynced {
		g.unsynced[m.id] = true
	}
	s.beginSession(now, g, m, m.session)
	if g.phase != stable || g.selectProtocol() != g.protocol {
		s.rebalanceOrComplete(now, g)
		return
	}
	m.joining = 0
	joined := g.joined(m)
	if !canSkipAssignment {
		// The new member must not assign partitions again, even if it is the leader. An older client
		// assigns partitions whenever the answer names it as the leader, so the answer names the old
		// member id as the leader.
		joined.Leader, joined.Members = leader, nil
	} else {
		joined.SkipAssignment = g.leader == m.id
	}
	s.out.VolatileChanged = true
	s.store(g.record(now, func(m *member) []byte { return m.assignment }))
	s.answer(Answer{To: to, Result: Result{Joined: joined}})
}

// fence answers a replaced member's waiting requests with ErrFencedInstance.
func (s *State) fence(m *member) {
	s.answer(Answer{To: m.joining, Err: ErrFencedInstance,
		Result: Result{Joined: Joined{Generation: -1, Member: m.id}}})
	s.answer(Answer{To: m.syncing, Err: ErrFencedInstance})
	m.joining, m.syncing = 0, 0
}

// joined returns the answer to a member's join.
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
