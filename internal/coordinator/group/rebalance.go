package group

import "time"

// rebalanceOrComplete begins a rebalance, or, in one, looks whether all have come.
func (s *State) rebalanceOrComplete(now time.Time, g *group) {
	if g.phase != preparing {
		s.rebalance(now, g)
	} else if g.before != empty && g.allJoined() { // the initial delay is waited for in any case
		s.completeJoin(now, g)
	}
}

// rebalance asks all members to join again. An empty group's first member waits a while for others,
// so that a fleet that starts does not rebalance at each arrival (KIP-134).
func (s *State) rebalance(now time.Time, g *group) {
	if g.phase == completing {
		for _, m := range g.members {
			s.answerSync(now, g, m, ErrRebalanceInProgress)
			m.assignment = nil
		}
	}
	clear(g.unsynced)
	g.turn(preparing)
	switch {
	case g.before == empty:
		delay := max(0, s.config.InitialDelay)
		g.newcomers, g.delayLeft = false, max(0, g.rebalanceTimeout()-delay)
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

// phaseOver is called when a phase has taken its time.
func (s *State) phaseOver(now time.Time, g *group) {
	if g.phaseEnd.IsZero() || now.Before(g.phaseEnd) {
		return
	}
	switch g.phase {
	case preparing:
		if g.before == empty && g.newcomers && g.delayLeft > 0 {
			delay := min(s.config.InitialDelay, g.delayLeft)
			g.newcomers, g.delayLeft = false, g.delayLeft-delay
			s.phaseUntil(now, g, delay)
			return
		}
		s.completeJoin(now, g)
	case completing, stable:
		s.dropUnsynced(now, g)
	case empty:
	}
}

// completeJoin makes the next generation of those who wait. Dynamic members who did not come are
// out; static ones stay until their session is over. That the group is left empty is stored; that
// it has another generation is not before its leader has assigned.
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
	case !g.elect():
		// only static members, all away: until they come, or their sessions are over
		s.phaseUntil(now, g, g.rebalanceTimeout())
		return
	}
	g.generation++
	g.turn(completing)
	g.protocol = g.choose()
	for _, m := range g.members {
		g.unsynced[m.id] = true
		s.answer(Answer{To: m.joining, Result: Result{Joined: g.joined(m)}})
		m.joining, m.isNew = 0, false
		s.beginSession(now, g, m, m.session)
	}
	s.phaseUntil(now, g, g.rebalanceTimeout())
}

// elect makes sure of a leader that has come; it fails if nobody has.
func (g *group) elect() bool {
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

// dropUnsynced removes the members that have joined the generation and were not heard of since.
func (s *State) dropUnsynced(now time.Time, g *group) {
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

// beginSession gives a member d from now to be heard of.
func (s *State) beginSession(now time.Time, g *group, m *member, d time.Duration) {
	m.deadline = now.Add(d)
	if !s.loading {
		s.timers.Set(TimerKey{g.id, m.id}, d)
	}
}

// sessionOver is called when a session may be over: of a member, or of an id that was given out.
func (s *State) sessionOver(now time.Time, g *group, id string) {
	if until, promised := g.promised[id]; promised {
		if !now.Before(until) {
			delete(g.promised, id)
			s.timers.Clear(TimerKey{g.id, id})
			s.goneFrom(now, g, false)
		}
		return
	}
	m := g.byID[id]
	if m == nil || now.Before(m.deadline) {
		return
	}
	// Who waits for us has no heartbeats to send. One that never had an id may have gone long ago,
	// and begun again as another.
	if m.syncing != 0 || m.joining != 0 && !m.isNew {
		return
	}
	s.expel(g, m)
	s.goneFrom(now, g, true)
}

// expel removes a member and ends what it waits for.
func (s *State) expel(g *group, m *member) {
	s.answer(Answer{To: m.joining, Err: ErrUnknownMember, Result: Result{Joined: Joined{Generation: -1}}})
	s.answer(Answer{To: m.syncing, Err: ErrUnknownMember})
	m.joining, m.syncing = 0, 0
	s.timers.Clear(TimerKey{g.id, m.id})
	g.remove(m)
}

// goneFrom goes on without who is gone: members, or only ids that nobody has joined with.
func (s *State) goneFrom(now time.Time, g *group, members bool) {
	switch {
	case g.phase == preparing:
		s.rebalanceOrComplete(now, g)
	case g.phase != empty && members:
		s.rebalance(now, g)
	}
	s.dropIfVoid(g)
}
