package group

import (
	"cmp"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

// This file connects the two group protocols. If a group uses the consumer protocol (KIP-848), its
// state is in group.consumer. Its group.phase is empty or stable, and it has no classic members.
//
// A group without members changes its protocol when a member of the other protocol joins:
// tombstones are stored for the records of the old protocol, and the offsets stay. A group with
// members rejects members of the other protocol (ErrNotFound, ErrInconsistentProtocol), as Kafka
// does if group migration is disabled.

func (s *State) consumerConfig(groupID string) consumer.Config {
	override := s.config.Overrides[groupID]
	return consumer.Config{
		Session:  cmp.Or(override.ConsumerSession, s.config.ConsumerSession),
		Interval: cmp.Or(override.ConsumerInterval, s.config.ConsumerInterval),
		Assignment: max(0, cmp.Or(override.ConsumerAssignment,
			s.config.ConsumerAssignment)),
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

// consumerHeartbeat handles a heartbeat for the consumer state c of group g. If g is nil, or a
// classic group without members, c is an empty state, and the replay of the resulting records
// creates g.consumer.
func (s *State) consumerHeartbeat(
	now time.Time, g *group, c *consumer.Group, h *consumer.Heartbeat, topics *consumer.Topics,
) (consumer.Answer, Output, error) {
	var answer consumer.Answer
	var records []consumer.Record
	var err error
	if h.Epoch < consumer.EpochJoin {
		answer, records, err = c.Leave(h)
	} else {
		answer, records, err = c.Heartbeat(now, h, topics, s.consumerConfig(c.ID))
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

// setConsumerTimer sets the timer of a consumer-protocol member to the member's next timeout.
func (s *State) setConsumerTimer(now time.Time, c *consumer.Group, memberID string) {
	if due, ok := c.Due(memberID); ok && !s.loading {
		s.timers.Set(TimerKey{c.ID, memberID}, due.Sub(now))
	}
}

// consumerExpired handles the expired timer of a consumer-protocol member.
func (s *State) consumerExpired(now time.Time, g *group, memberID string) {
	records := g.consumer.Expire(now, memberID)
	s.storeAll(records)
	if records == nil {
		s.setConsumerTimer(now, g.consumer, memberID)
	}
}

// leaveConsumer removes the member with the given instance id, for an administrator's LeaveGroup
// request. Members themselves leave by a heartbeat.
func (s *State) leaveConsumer(g *group, l Leaver) error {
	if l.Member != "" || l.Instance == "" {
		return ErrUnknownMember
	}
	records, err := g.consumer.RemoveInstance(l.Instance)
	s.storeAll(records)
	return err
}

// convertToClassic deletes the consumer state of a group without members, so that a member of the
// classic protocol can join.
func (s *State) convertToClassic(g *group, j Join) error {
	switch {
	case g.consumer.Members() > 0:
		return ErrInconsistentProtocol
	case j.Member != "":
		return ErrUnknownMember
	}
	// join adds the member to the state before the tombstones are stored
	s.out.VolatileChanged = true
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
	if err := g.consumer.Replay(now, s.consumerConfig(g.id).Session, k, value); err != nil {
		return err
	}
	if s.loading {
		// In a compacted log, a group's records can be in any order. loadedConsumer evaluates them after
		// all records have been replayed.
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

// updateFromConsumer sets the group's phase and protocol type from its consumer state. If the log
// no longer contains records of the consumer state, updateFromConsumer removes this state.
func (s *State) updateFromConsumer(g *group) {
	switch {
	case g.consumer.Unused():
		g.consumer = nil
		// if the group has classic members, their joins have already set both fields
		if len(g.members) == 0 {
			g.phase, g.protocolType = empty, ""
		}
		s.deleteIfUnused(g)
	case g.consumer.Members() > 0:
		g.phase, g.protocolType = stable, consumerProtocol
	case len(g.members) == 0:
		g.phase, g.protocolType = empty, consumerProtocol
	}
}

// loadedConsumer completes the state of a consumer-protocol group after all records of the log have
// been replayed.
func (s *State) loadedConsumer(now time.Time, g *group) {
	if !g.consumer.Unused() {
		g.setMembers(nil)
	}
	g.consumer.Loaded(now, s.consumerConfig(g.id).Session)
	for id := range g.consumer.MemberIDs() {
		s.setConsumerTimer(now, g.consumer, id)
	}
	s.updateFromConsumer(g)
}

// checkConsumerCommit is the part of checkCommit for consumer-protocol groups.
func (g *group) checkConsumerCommit(c *Commit) error {
	if c.Generation >= 0 && c.NoEpochs && g.consumer.Members() > 0 {
		return ErrOldProtocol
	}
	partitions := make([]consumer.Partition, len(c.Offsets))
	for i := range c.Offsets {
		partitions[i] = consumer.Partition{Topic: c.Offsets[i].TopicID, Index: c.Offsets[i].Partition}
	}
	return g.consumer.CheckCommit(c.Member, c.Generation, partitions)
}

// Reader identifies the client that fetches offsets: either a member with its epoch, or a client
// that is not a member ("" and -1).
type Reader struct {
	Member string
	Epoch  int32
}

// CheckFetch returns an error if a consumer-protocol member sends an epoch other than its current
// one.
func (s *State) CheckFetch(groupID string, r Reader) error {
	if g := s.groups[groupID]; g != nil && g.consumer != nil {
		return g.consumer.CheckFetch(r.Member, r.Epoch)
	}
	return nil
}

// DescribeConsumer returns the description of a consumer-protocol group. It returns ErrNotFound if
// the group does not exist or uses the classic protocol.
func (s *State) DescribeConsumer(groupID string) (consumer.Description, error) {
	if g := s.groups[groupID]; g != nil && g.consumer != nil {
		return g.consumer.Describe(), nil
	}
	return consumer.Description{}, ErrNotFound
}
