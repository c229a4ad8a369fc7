package group

import "time"

// rebalanceOrComplete starts a rebalance, or completes the current one if all members have joined.
func (s *State) rebalanceOrComplete(now time.Time, g *group) {
	if g.phase != preparing {
		s.rebalance(now, g)
		// The initial delay of an empty group is ended only by its timer.
	} else if g.previousPhase != empty && g.allJoined() {
		s.completeJoin(now, g)
	}
}

// rebalance starts a rebalance, in which all members join again. For an empty group, an initial
// delay is added, so that consumers that start at the same time cause only one rebalance (KIP-134).
func (s *State) rebalance(now time.Time, g *group) {
	if g.phase == completing {
		for _, m := range g.members {
			s.answerSync(now, g, m, ErrRebalanceInProgress)
			m.assignment = nil
		}
	}
	clear(g.unsynced)
	g.setPhase(preparing)
	switch {
	case g.previousPhase == empty:
		delay := max(0, s.config.InitialDelay)
		g.joinedInDelay, g.delayRemaining = false, max(0, g.rebalanceTimeout()-delay)
		s.phaseUntil(now, g, delay)
	case g.allJoined():
		s.completeJoin(now, g)
	default:
		s.phaseUntil(now, g, g.rebalanceTimeout())
	}
}

func (s *State) phaseUntil(now time.Time, g *group, d time.Duration) {
	g.phaseEnd = now.Add(d)
	s.timers.Set(TimerKey{Group: g.id}, d)
}

func (s *State) endPhase(g *group) {
	g.phaseEnd = time.Time{}
	s.timers.Clear(TimerKey{Group: g.id})
}

// phaseExpired handles the expired timer of a group's phase.
func (s *State) phaseExpired(now time.Time, g *group) {
	if g.phaseEnd.IsZero() || now.Before(g.phaseEnd) {
		return
	}
	switch g.phase {
	case preparing:
		if g.previousPhase == empty && g.joinedInDelay && g.delayRemaining > 0 {
			delay := min(s.config.InitialDelay, g.delayRemaining)
			g.joinedInDelay, g.delayRemaining = false, g.delayRemaining-delay
			s.phaseUntil(now, g, delay)
			return
		}
		s.completeJoin(now, g)
	case completing, stable:
		s.removeUnsynced(now, g)
	case empty:
	}
}

// completeJoin starts the next generation with the members whose Join is waiting. It removes
// dynamic members that have not joined again; static members stay until their sessions expire. A
// group without members is stored at once. A new generation is stored only when the leader has sent
// the assignments.
func (s *State) completeJoin(now time.Time, g *group) {
	s.endPhase(g)
	for _, m := range append([]*member(nil), g.members...) {
		if m.joining == 0 && m.instance == "" {
			s.timers.Clear(TimerKey{g.id, m.id})
			g.remove(m)
		}
	}
	switch {
	case len(g.members) == 0:
		s.out.VolatileChanged = true
		s.store(g.emptyRecord(now))
		return
	case !g.electLeader():
		// Only static members are left, and none has joined. Wait until one joins or their sessions
		// expire.
		s.phaseUntil(now, g, g.rebalanceTimeout())
		return
	}
	g.generation++
	g.setPhase(completing)
	g.protocol = g.selectProtocol()
	for _, m := range g.members {
		g.unsynced[m.id] = true
		s.answer(Answer{To: m.joining, Result: Result{Joined: g.joined(m)}})
		m.joining, m.isNew = 0, false
		s.beginSession(now, g, m, m.session)
	}
	s.phaseUntil(now, g, g.rebalanceTimeout())
}

// electLeader ensures that the group's leader is a member whose Join is waiting. It returns false
// if there is no such member.
func (g *group) electLeader() bool {
	if m := g.byID[g.leader]; m != nil && m.joining != 0 {
		return true
	}
	for _, m := range g.members {
		if m.joining != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// removeUnsynced removes the members that have joined the generation but have not synced within the
// rebalance timeout, and starts a rebalance.
func (s *State) removeUnsynced(now time.Time, g *group) {
	s.endPhase(g)
	if len(g.unsynced) == 0 {
		return
	}
	for _, m := range append([]*member(nil), g.members...) {
		if g.unsynced[m.id] {
			s.timers.Clear(TimerKey{g.id, m.id})
			g.remove(m)
		}
	}
	s.rebalance(now, g)
}

// beginSession starts or renews a member's session, which expires after the duration d.
func (s *State) beginSession(now time.Time, g *group, m *member, d time.Duration) {
	m.deadline = now.Add(d)
	if !s.loading {
		s.timers.Set(TimerKey{g.id, m.id}, d)
	}
}

// sessionExpired handles the expired session timer of a member, or of a member id with which no
// client has joined yet.
func (s *State) sessionExpired(now time.Time, g *group, id string) {
	if until, pending := g.pendingIDs[id]; pending {
		if !now.Before(until) {
			delete(g.pendingIDs, id)
			s.timers.Clear(TimerKey{g.id, id})
			s.afterRemoval(now, g, false)
		}
		return
	}
	m := g.byID[id]
	if m == nil || now.Before(m.deadline) {
		return
	}
	// A member whose Join or Sync is waiting sends no heartbeats, so its session does not expire. But
	// a new member's session expires even while its Join is waiting, because its client may have sent
	// the Join again without a member id, and so may have become another member.
	if m.syncing != 0 || m.joining != 0 && !m.isNew {
		return
	}
	s.removeMember(g, m)
	s.afterRemoval(now, g, true)
}

// removeMember removes a member and answers its waiting requests with ErrUnknownMember.
func (s *State) removeMember(g *group, m *member) {
	s.answer(Answer{To: m.joining, Err: ErrUnknownMember,
		Result: Result{Joined: Joined{Generation: -1}}})
	s.answer(Answer{To: m.syncing, Err: ErrUnknownMember})
	m.joining, m.syncing = 0, 0
	s.timers.Clear(TimerKey{g.id, m.id})
	g.remove(m)
}

// afterRemoval continues or restarts the rebalance after a removal. members is false if only member
// ids were removed with which no client had joined.
func (s *State) afterRemoval(now time.Time, g *group, members bool) {
	switch {
	case g.phase == preparing:
		s.rebalanceOrComplete(now, g)
	case g.phase != empty && members:
		s.rebalance(now, g)
	}
	s.deleteIfUnused(g)
}
