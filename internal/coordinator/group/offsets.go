package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit stores offsets, of a member, or, with generation -1, of who does without membership.
type Commit struct {
	Group, Member, Instance string
	Generation              int32
	// it comes by a version that members of the consumer protocol must not use (OffsetCommit before
	// 9)
	NoEpochs bool
	Offsets  []CommitOffset
}

// CommitOffset is one of them; its CommittedMs is set by Commit.
type CommitOffset struct {
	Topic     string
	Partition int32
	Offset
}

// Commit returns an error for each offset, in their order, or one for all of them.
func (s *State) Commit(now time.Time, c Commit) (errs []error, out Output, err error) {
	g := s.groups[c.Group]
	if err := s.mayCommit(now, g, &c); err != nil {
		return nil, Output{}, err
	}
	errs = make([]error, len(c.Offsets))
	for i, o := range c.Offsets {
		if len(o.Metadata) > max(0, s.config.MetadataBytesMax) {
			errs[i] = ErrMetadataTooLarge
			continue
		}
		o.CommittedMs = now.UnixMilli()
		s.store(offsetRecord(c.Group, topicPartition{o.Topic, o.Partition}, o.Offset))
	}
	return errs, s.take(), nil
}

// mayCommit is what keeps those who are members no more from going back behind those who are.
func (s *State) mayCommit(now time.Time, g *group, c *Commit) error {
	if g != nil && g.consumer != nil {
		return g.mayCommitConsumer(c)
	}
	switch {
	case g == nil && c.Generation < 0, g != nil && c.Generation < 0 && g.phase == empty:
		return nil // an admin tool, or a consumer that was assigned its partitions by hand
	case g == nil && !c.NoEpochs:
		return ErrNotFound
	case g == nil:
		return ErrIllegalGeneration
	case c.Generation < 0 && c.Member == "" && c.Instance == "":
		return ErrUnknownMember
	}
	m, err := g.check(c.Member, c.Instance)
	switch {
	case err != nil:
		return err
	case g.generation != c.Generation:
		return ErrIllegalGeneration
	case g.phase == completing:
		// it will get its partitions with its sync; until then they may be another's
		return ErrRebalanceInProgress
	}
	s.beginSession(now, g, m, m.session)
	return nil
}

// Committed returns a committed offset.
func (s *State) Committed(groupID, topic string, partition int32) (Offset, bool) {
	g := s.groups[groupID]
	if g == nil {
		return Offset{}, false
	}
	o, ok := g.offsets[topicPartition{topic, partition}]
	return o, ok
}

// AllCommitted returns all offsets of a group, sorted by topic and partition.
func (s *State) AllCommitted(groupID string) []CommitOffset {
	g := s.groups[groupID]
	if g == nil {
		return nil
	}
	all := make([]CommitOffset, 0, len(g.offsets))
	for at, o := range g.offsets {
		all = append(all, CommitOffset{at.topic, at.index, o})
	}
	slices.SortFunc(all, func(a, b CommitOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// TopicPartition names a partition whose offset is to go.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// DeleteOffsets forgets offsets, unless the group consumes the topic; an error for each, or one for
// all.
func (s *State) DeleteOffsets(groupID string, of []TopicPartition) (errs []error, out Output,
	err error) {
	g := s.groups[groupID]
	switch {
	case g == nil:
		return nil, Output{}, ErrNotFound
	case g.phase != empty && g.protocolType != consumerProtocol:
		return nil, Output{}, ErrNotEmpty
	}
	subscribed := g.subscriptions()
	errs = make([]error, len(of))
	for i, one := range of {
		at := topicPartition{one.Topic, one.Partition}
		if subscribed.has(one.Topic) {
			errs[i] = ErrSubscribed
		} else if _, has := g.offsets[at]; has {
			s.store(Record{Key: offsetKey(g.id, at)})
		}
	}
	return errs, s.take(), nil
}

// consumerProtocol is the protocol type of consumers, whose metadata we can read.
const consumerProtocol = "consumer"

// subscriptions are the topics that members of a group ask for.
type subscriptions struct {
	topics map[string]bool
	all    bool // one of them cannot be read: it may be any
}

func (s subscriptions) has(topic string) bool { return s.all || s.topics[topic] }

// subscriptions reads what the members of a group of consumers say of themselves; other groups ask
// for no topics.
func (g *group) subscriptions() subscriptions {
	read := subscriptions{topics: map[string]bool{}}
	if g.protocolType != consumerProtocol {
		return read
	}
	if g.consumer != nil {
		read.topics = g.consumer.Subscriptions()
		return read
	}
	for _, m := range g.members {
		for i := range m.protocols {
			var metadata kmsg.ConsumerMemberMetadata
			if metadata.ReadFrom(m.protocols[i].Metadata) != nil {
				read.all = true
				continue
			}
			for _, topic := range metadata.Topics {
				read.topics[topic] = true
			}
		}
	}
	return read
}

// Delete forgets a group that has no members, with its offsets.
func (s *State) Delete(groupID string) (Output, error) {
	g := s.groups[groupID]
	switch {
	case g == nil:
		return Output{}, ErrNotFound
	case g.phase != empty || len(g.promised) > 0:
		return Output{}, ErrNotEmpty
	}
	s.bury(g)
	return s.take(), nil
}

// bury writes the tombstones of all that is stored of a group.
func (s *State) bury(g *group) {
	for _, o := range s.AllCommitted(g.id) {
		s.store(Record{Key: offsetKey(g.id, topicPartition{o.Topic, o.Partition})})
	}
	s.buryGroup(g)
}

// buryGroup writes the tombstones of all that is stored of a group but its offsets.
func (s *State) buryGroup(g *group) {
	if g.kept {
		s.store(Record{Key: groupKey(g.id)})
	}
	if g.consumer != nil {
		s.storeAll(g.consumer.Bury())
	}
}

// Expire forgets offsets that are older than the retention, and groups that have neither members
// nor offsets left, until about limit records; more tells that there is more to do. While a group
// has members, the offsets of the topics they ask for stay, however old; those of other topics go
// (KIP-211).
func (s *State) Expire(now time.Time, limit int) (out Output, more bool) {
	for _, g := range s.groups {
		kept, may := g.keepsOffsets()
		if !may {
			continue
		}
		if len(s.out.Records) >= limit {
			return s.take(), true
		}
		left := len(g.offsets)
		for at, o := range g.offsets {
			if !kept.has(at.topic) && s.expired(now, g, o) {
				s.forget(g, at)
				left--
			}
		}
		if left == 0 && g.phase == empty {
			s.buryGroup(g)
		}
	}
	return s.take(), false
}

// keepsOffsets tells of which topics a group's offsets stay however old they are; may is false
// while nothing of it may expire, as in a rebalance, when nobody knows what it will ask for.
func (g *group) keepsOffsets() (of subscriptions, may bool) {
	switch {
	case g.phase == empty:
		return subscriptions{}, len(g.promised) == 0
	case g.phase == stable && g.protocolType == consumerProtocol:
		return g.subscriptions(), true
	}
	return subscriptions{}, false
}

// forget writes an offset's tombstone because nobody needs it any more.
func (s *State) forget(g *group, at topicPartition) {
	s.store(Record{Key: offsetKey(g.id, at)})
	s.expiredCount++
}

// expired tells whether an offset has outlived its group's members, or its commit where they do not
// ask for its topic or there were none, by the retention.
func (s *State) expired(now time.Time, g *group, o Offset) bool {
	if o.ExpireMs >= 0 {
		return now.UnixMilli() >= o.ExpireMs
	}
	since := time.UnixMilli(o.CommittedMs)
	if g.protocolType != "" && g.phase == empty && g.since.After(since) {
		since = g.since
	}
	return !now.Before(since.Add(s.config.Retention))
}

// ForgetOffsets writes the tombstones of all offsets of which stale says that their topic is gone:
// one of its name that is made later is another. stale is asked once for each topic, and id.
func (s *State) ForgetOffsets(stale func(topic string, id [16]byte) bool) Output {
	type identity struct {
		topic string
		id    [16]byte
	}
	known := map[identity]bool{}
	for _, g := range s.groups {
		for at, o := range g.offsets {
			of := identity{at.topic, o.TopicID}
			is, asked := known[of]
			if !asked {
				is = stale(of.topic, of.id)
				known[of] = is
			}
			if is {
				s.forget(g, at)
			}
		}
	}
	return s.take()
}
