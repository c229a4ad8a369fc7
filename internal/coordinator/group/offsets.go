package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit is a request to store offsets, of a member or, with generation -1, of a client without
// membership.
type Commit struct {
	Group, Member, Instance string
	Generation              int32
	// NoEpochs is set if the request version has no member epochs (OffsetCommit before 9), so
	// members of the consumer protocol must not use it.
	NoEpochs bool
	Offsets  []CommitOffset
}

// CommitOffset is an offset of a partition. State.Commit sets its CommittedMs.
type CommitOffset struct {
	Topic     string
	Partition int32
	Offset
}

// Commit handles a commit. It returns one error for each offset, in order, or one for all.
func (s *State) Commit(now time.Time, c Commit) (errs []error, out Output, err error) {
	g := s.groups[c.Group]
	if err := s.checkCommit(now, g, &c); err != nil {
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

// checkCommit rejects commits of former members, which could overwrite those of current members.
func (s *State) checkCommit(now time.Time, g *group, c *Commit) error {
	if g != nil && g.consumer != nil {
		return g.checkConsumerCommit(c)
	}
	switch {
	case g == nil && c.Generation < 0, g != nil && c.Generation < 0 && g.phase == empty:
		return nil // an admin tool, or a consumer that assigns its partitions itself
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
		// the member gets its partitions with its sync; until then another member may own them
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

// TopicPartition identifies a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// DeleteOffsets deletes offsets, except of topics that the group subscribes to. It returns one
// error for each partition, in order, or one for all.
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

// consumerProtocol is the protocol type of consumers. Their member metadata has a known format.
const consumerProtocol = "consumer"

// subscriptions are the topics that members of a group subscribe to.
type subscriptions struct {
	topics map[string]bool
	all    bool // the metadata of a member cannot be decoded: assume all topics
}

func (s subscriptions) has(topic string) bool { return s.all || s.topics[topic] }

// subscriptions returns the topics that the members subscribe to; none for protocol types other
// than consumer.
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

// Delete deletes a group without members, and its offsets.
func (s *State) Delete(groupID string) (Output, error) {
	g := s.groups[groupID]
	switch {
	case g == nil:
		return Output{}, ErrNotFound
	case g.phase != empty || len(g.pendingIDs) > 0:
		return Output{}, ErrNotEmpty
	}
	s.tombstoneAll(g)
	return s.take(), nil
}

// tombstoneAll stores tombstones for all records of a group.
func (s *State) tombstoneAll(g *group) {
	for _, o := range s.AllCommitted(g.id) {
		s.store(Record{Key: offsetKey(g.id, topicPartition{o.Topic, o.Partition})})
	}
	s.tombstoneGroup(g)
}

// tombstoneGroup stores tombstones for all records of a group but its offsets.
func (s *State) tombstoneGroup(g *group) {
	if g.stored {
		s.store(Record{Key: groupKey(g.id)})
	}
	if g.consumer != nil {
		s.storeAll(g.consumer.Tombstones())
	}
}

// Expire deletes offsets that are older than the retention, and groups that have neither members
// nor offsets left. It returns at most about limit records; more is true if further calls are
// needed. While a group has members, the offsets of the topics that they subscribe to do not expire
// (KIP-211).
func (s *State) Expire(now time.Time, limit int) (out Output, more bool) {
	for _, g := range s.groups {
		retained, ok := g.retainedTopics()
		if !ok {
			continue
		}
		if len(s.out.Records) >= limit {
			return s.take(), true
		}
		left := len(g.offsets)
		for at, o := range g.offsets {
			if !retained.has(at.topic) && s.expired(now, g, o) {
				s.deleteOffset(g, at)
				left--
			}
		}
		if left == 0 && g.phase == empty {
			s.tombstoneGroup(g)
		}
	}
	return s.take(), false
}

// retainedTopics returns the topics whose offsets do not expire. ok is false if no offset of the
// group may expire now, as in a rebalance, when the subscriptions are not known.
func (g *group) retainedTopics() (topics subscriptions, ok bool) {
	switch {
	case g.phase == empty:
		return subscriptions{}, len(g.pendingIDs) == 0
	case g.phase == stable && g.protocolType == consumerProtocol:
		return g.subscriptions(), true
	}
	return subscriptions{}, false
}

// deleteOffset stores the tombstone of an expired or stale offset.
func (s *State) deleteOffset(g *group, at topicPartition) {
	s.store(Record{Key: offsetKey(g.id, at)})
	s.expiredCount++
}

// expired reports whether the retention has passed since the commit or, if that was later, since
// the group became empty.
func (s *State) expired(now time.Time, g *group, o Offset) bool {
	if o.ExpireMs >= 0 {
		return now.UnixMilli() >= o.ExpireMs
	}
	since := time.UnixMilli(o.CommittedMs)
	if g.protocolType != "" && g.phase == empty && g.phaseSince.After(since) {
		since = g.phaseSince
	}
	return !now.Before(since.Add(s.config.Retention))
}

// DeleteStaleOffsets deletes all offsets whose topic was deleted, as reported by stale, which is
// called once for each topic name and id. A topic that is created again under the same name is a
// different topic.
func (s *State) DeleteStaleOffsets(stale func(topic string, id [16]byte) bool) Output {
	type identity struct {
		topic string
		id    [16]byte
	}
	known := map[identity]bool{}
	for _, g := range s.groups {
		for at, o := range g.offsets {
			topic := identity{at.topic, o.TopicID}
			isStale, checked := known[topic]
			if !checked {
				isStale = stale(topic.topic, topic.id)
				known[topic] = isStale
			}
			if isStale {
				s.deleteOffset(g, at)
			}
		}
	}
	return s.take()
}
