package group

import (
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

// A group of the consumer protocol (KIP-848) is kept in group.consumer; what is here is where the
// two protocols meet. Such a group is empty or stable, as far as group.phase goes, and has no
// members of the classic kind. A group without members turns into one of the other kind when a
// member of that kind joins: the records of the old kind get tombstones, the offsets stay. One with
// members does not turn: whoever comes by the other protocol is refused (ErrNotFound,
// ErrInconsistentProtocol), as Kafka does when its migration is off.

func (s *State) consumerConfig() consumer.Config {
	return consumer.Config{
		Session: s.config.ConsumerSession, Interval: s.config.ConsumerInterval,
		MembersMax:     s.config.MembersMax,
		RecordBytesMax: s.config.RecordBytesMax,
	}
}

// ConsumerHeartbeat answers a member of a group of the consumer protocol.
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

// consumerHeartbeat answers by c, which is the group's, or a new one, of which Replay makes the
// group's.
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
	if g != nil && g.kept {
		s.store(Record{Key: groupKey(g.id)})
	}
	s.storeAll(records)
	s.timeMember(now, c, h.Member)
	return answer, s.take(), nil
}

func (s *State) storeAll(records []consumer.Record) {
	for _, r := range records {
		s.store(Record(r))
	}
}

// timeMember has Fire called when a member's time is up.
func (s *State) timeMember(now time.Time, c *consumer.Group, memberID string) {
	if due, ok := c.Due(memberID); ok && !s.loading {
		s.timers.Set(TimerKey{c.ID, memberID}, due.Sub(now))
	}
}

// consumerDue is called when a member's time may be up.
func (s *State) consumerDue(now time.Time, g *group, memberID string) {
	records := g.consumer.Expire(now, memberID)
	s.storeAll(records)
	if records == nil {
		s.timeMember(now, g.consumer, memberID)
	}
}

// leaveConsumer takes members out that an admin names by their instances; members themselves leave
// by a heartbeat.
func (s *State) leaveConsumer(g *group, l Leaver) error {
	if l.Member != "" || l.Instance == "" {
		return ErrUnknownMember
	}
	records, err := g.consumer.RemoveInstance(l.Instance)
	s.storeAll(records)
	return err
}

// turnClassic makes a group of the consumer protocol without members a classic one, for who joins.
func (s *State) turnClassic(g *group, j Join) error {
	switch {
	case g.consumer.Members() > 0:
		return ErrInconsistentProtocol
	case j.Member != "":
		return ErrUnknownMember
	}
	s.out.VolatileChanged = true // who joins is let in before the records are stored
	s.storeAll(g.consumer.Bury())
	return nil
}

// replayConsumer takes in a record of a group of the consumer protocol.
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
		// records of a cleaned log come in any order: loadedConsumer looks at what they make
		// together
		return nil
	}
	s.afterConsumer(g)
	if g.consumer != nil && k.Of != "" {
		if _, member := g.consumer.Due(k.Of); member {
			s.timeMember(now, g.consumer, k.Of)
		} else {
			s.timers.Clear(TimerKey{g.id, k.Of})
		}
	}
	return nil
}

// afterConsumer makes the rest of the group agree with its consumer part.
func (s *State) afterConsumer(g *group) {
	switch {
	case g.consumer.Void():
		g.consumer = nil
		if len(g.members) == 0 { // else it is a classic group now
			g.phase, g.protocolType = empty, ""
		}
		s.dropIfVoid(g)
	case g.consumer.Members() > 0:
		g.phase, g.protocolType = stable, consumerProtocol
	case len(g.members) == 0:
		g.phase, g.protocolType = empty, consumerProtocol
	}
}

// loadedConsumer ends the replay of what is on the disk.
func (s *State) loadedConsumer(now time.Time, g *group) {
	if !g.consumer.Void() {
		g.setMembers(nil)
	}
	g.consumer.Loaded(now, s.config.ConsumerSession)
	for id := range g.consumer.MemberIDs() {
		s.timeMember(now, g.consumer, id)
	}
	s.afterConsumer(g)
}

// mayCommitConsumer is mayCommit of a group of the consumer protocol.
func (g *group) mayCommitConsumer(c *Commit) error {
	if c.Generation >= 0 && c.NoEpochs && g.consumer.Members() > 0 {
		return ErrOldProtocol
	}
	of := make([]consumer.Partition, len(c.Offsets))
	for i := range c.Offsets {
		of[i] = consumer.Partition{Topic: c.Offsets[i].TopicID, Index: c.Offsets[i].Partition}
	}
	return g.consumer.MayCommit(c.Member, c.Generation, of)
}

// Reader is who asks for offsets: a member, in an epoch, or nobody in particular ("" and -1).
type Reader struct {
	Member string
	Epoch  int32
}

// MayFetch refuses a member of the consumer protocol that is not in the epoch that it thinks.
func (s *State) MayFetch(groupID string, r Reader) error {
	if g := s.groups[groupID]; g != nil && g.consumer != nil {
		return g.consumer.MayFetch(r.Member, r.Epoch)
	}
	return nil
}

// DescribeConsumer returns a group of the consumer protocol; ErrNotFound, also of a classic one.
func (s *State) DescribeConsumer(groupID string) (consumer.Description, error) {
	if g := s.groups[groupID]; g != nil && g.consumer != nil {
		return g.consumer.Describe(), nil
	}
	return consumer.Description{}, ErrNotFound
}
