package group

import (
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

// This file connects the two protocols. A group of the consumer protocol (KIP-848) has its state in
// group.consumer; its group.phase is empty or stable, and it has no classic members. A group
// without members is converted when a member of the other protocol joins: the records of the old
// protocol get tombstones, the offsets stay. A group with members is not converted: joins by the
// other protocol are rejected (ErrNotFound, ErrInconsistentProtocol), as Kafka does when group
// migration is disabled.

func (s *State) consumerConfig() consumer.Config {
	return consumer.Config{
		Session: s.config.ConsumerSession, Interval: s.config.ConsumerInterval,
		MembersMax:     s.config.MembersMax,
		RecordBytesMax: s.config.RecordBytesMax,
	}
}

// ConsumerHeartbeat handles a heartbeat of the consumer protocol.
func (s *State) ConsumerHeartbeat(now time.Time, h *consumer.Heartbeat,
	topics *consumer.Topics) (consumer.Answer, Output, error) {
	if err := h.Check(); err != nil {
		return consumer.Answer{}, Output{}, err
	}
	g := s.groups[h.Group]
	if g == nil || g.consumer == nil {
		if h.Epoch != consumer.EpochJoin || g != nil && g.phase != empty {
			return consumer.Answer{}, Output{}, ErrNotFound
		}
		return s.consumerHeartbeat(now, g, consumer.New(h.Group, false), h, topics)
	}
	return s.consumerHeartbeat(now, g, g.consumer, h, topics)
}

// consumerHeartbeat handles a heartbeat with the state c: the consumer state of the group, or an
// empty state for a new group, whose stored state Replay creates.
func (s *State) consumerHeartbeat(
	now time.Time, g *group, c *consumer.Group, h *consumer.Heartbeat, topics *consumer.Topics,
) (consumer.Answer, Output, error) {
	var answer consumer.Answer
	var records []consumer.Record
	var err error
	if h.Epoch < consumer.EpochJoin {
		answer, records, err = c.Leave(h)
	} else {
		answer, records, err = c.Heartbeat(now, h, topics, s.consumerConfig())
	}
	if err != nil {
		return answer, Output{}, err
	}
	if g != nil && g.stored {
		s.store(Record{Key: groupKey(g.id)})
	}
	s.storeAll(records)
	s.setConsumerTimer(now, c, h.Member)
	return answer, s.take(), nil
}

func (s *State) storeAll(records []consumer.Record) {
	for _, r := range records {
		s.store(Record(r))
	}
}

// setConsumerTimer sets the timer of a member of the consumer protocol.
func (s *State) setConsumerTimer(now time.Time, c *consumer.Group, memberID string) {
	if due, ok := c.Due(memberID); ok && !s.loading {
		s.timers.Set(TimerKey{c.ID, memberID}, due.Sub(now))
	}
}

// consumerExpired handles the timer of a member of the consumer protocol.
func (s *State) consumerExpired(now time.Time, g *group, memberID string) {
	records := g.consumer.Expire(now, memberID)
	s.storeAll(records)
	if records == nil {
		s.setConsumerTimer(now, g.consumer, memberID)
	}
}

// leaveConsumer removes a member by its instance id, for administrators. Members themselves leave
// by a heartbeat.
func (s *State) leaveConsumer(g *group, l Leaver) error {
	if l.Member != "" || l.Instance == "" {
		return ErrUnknownMember
	}
	records, err := g.consumer.RemoveInstance(l.Instance)
	s.storeAll(records)
	return err
}

// convertToClassic converts an empty group of the consumer protocol to a classic one for a join.
func (s *State) convertToClassic(g *group, j Join) error {
	switch {
	case g.consumer.Members() > 0:
		return ErrInconsistentProtocol
	case j.Member != "":
		return ErrUnknownMember
	}
	s.out.VolatileChanged = true // the member is added before the records are stored
	s.storeAll(g.consumer.Tombstones())
	return nil
}

// replayConsumer applies a record of the consumer protocol.
func (s *State) replayConsumer(now time.Time, key, value []byte) error {
	k, err := consumer.ReadKey(key)
	if err != nil {
		return err
	}
	g := s.groups[k.Group]
	if value == nil && (g == nil || g.consumer == nil) {
		return nil
	}
	if g == nil {
		g = s.newGroup(k.Group)
	}
	if g.consumer == nil {
		g.consumer = consumer.New(g.id, s.loading)
	}
	if err := g.consumer.Replay(now, s.config.ConsumerSession, k, value); err != nil {
		return err
	}
	if s.loading {
		// Records of a compacted log may be in any order, so loadedConsumer evaluates them
		// together.
		return nil
	}
	s.updateFromConsumer(g)
	if g.consumer != nil && k.ID != "" {
		if _, member := g.consumer.Due(k.ID); member {
			s.setConsumerTimer(now, g.consumer, k.ID)
		} else {
			s.timers.Clear(TimerKey{g.id, k.ID})
		}
	}
	return nil
}

// updateFromConsumer updates the fields of the group that depend on its consumer state.
func (s *State) updateFromConsumer(g *group) {
	switch {
	case g.consumer.Unused():
		g.consumer = nil
		if len(g.members) == 0 { // a group with classic members is a classic group now
			g.phase, g.protocolType = empty, ""
		}
		s.deleteIfUnused(g)
	case g.consumer.Members() > 0:
		g.phase, g.protocolType = stable, consumerProtocol
	case len(g.members) == 0:
		g.phase, g.protocolType = empty, consumerProtocol
	}
}

// loadedConsumer ends the initial replay for a group.
func (s *State) loadedConsumer(now time.Time, g *group) {
	if !g.consumer.Unused() {
		g.setMembers(nil)
	}
	g.consumer.Loaded(now, s.config.ConsumerSession)
	for id := range g.consumer.MemberIDs() {
		s.setConsumerTimer(now, g.consumer, id)
	}
	s.updateFromConsumer(g)
}

// checkConsumerCommit is checkCommit for a group of the consumer protocol.
func (g *group) checkConsumerCommit(c *Commit) error {
	if c.Generation >= 0 && c.NoEpochs && g.consumer.Members() > 0 {
		return ErrOldProtocol
	}
	of := make([]consumer.Partition, len(c.Offsets))
	for i := range c.Offsets {
		of[i] = consumer.Partition{Topic: c.Offsets[i].TopicID, Index: c.Offsets[i].Partition}
	}
	return g.consumer.CheckCommit(c.Member, c.Generation, of)
}

// Reader is the client that fetches offsets: a member in an epoch, or a client without membership
// ("" and -1).
type Reader struct {
	Member string
	Epoch  int32
}

// CheckFetch rejects a member of the consumer protocol whose epoch is not current.
func (s *State) CheckFetch(groupID string, r Reader) error {
	if g := s.groups[groupID]; g != nil && g.consumer != nil {
		return g.consumer.CheckFetch(r.Member, r.Epoch)
	}
	return nil
}

// DescribeConsumer returns a group of the consumer protocol. It also returns ErrNotFound for a
// classic group.
func (s *State) DescribeConsumer(groupID string) (consumer.Description, error) {
	if g := s.groups[groupID]; g != nil && g.consumer != nil {
		return g.consumer.Describe(), nil
	}
	return consumer.Description{}, ErrNotFound
}
