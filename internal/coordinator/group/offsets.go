package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit is a request to store offsets. The sender is a member, or a client that is not a member
// and sends generation -1.
type Commit struct {
	Group, Member, Instance string
	Generation              int32
	// NoEpochs is set if the request's version does not support member epochs (OffsetCommit below 9).
	// Members of the consumer protocol must not send such a request.
	NoEpochs bool
	Offsets  []CommitOffset
}

// CommitOffset is a partition's committed offset. State.Commit sets CommittedMs.
type CommitOffset struct {
	Topic     string
	Partition int32
	Offset
}

// Commit stores the offsets of c. It returns one error per offset, in the order of c.Offsets, or a
// single error for the whole request.
func (s *State) Commit(now time.Time, c Commit) (errs []error, out Output, err error) {
	g := s.groups[c.Group]
	if err := s.checkCommit(now, g, &c); err != nil {
		return nil, Output{}, err
	}
	errs = s.storeCommit(now, &c)
	return errs, s.take(), nil
}

// storeCommit stores the offsets of a commit. It returns one error per offset.
func (s *State) storeCommit(now time.Time, c *Commit) []error {
	errs := make([]error, len(c.Offsets))
	for i, o := range c.Offsets {
		if len(o.Metadata) > max(0, s.config.MetadataBytesMax) {
			errs[i] = ErrMetadataTooLarge
			continue
		}
		o.CommittedMs = now.UnixMilli()
		s.store(offsetRecord(c.Group, topicPartition{o.Topic, o.Partition}, o.Offset))
	}
	return errs
}

// checkCommit rejects commits of former members, because they could overwrite offsets that current
// members have committed.
func (s *State) checkCommit(now time.Time, g *group, c *Commit) error {
	if g != nil && g.consumer != nil {
		return g.checkConsumerCommit(c)
	}
	switch {
	case g == nil && c.Generation < 0, g != nil && c.Generation < 0 && g.phase == empty:
		return nil // the sender is an admin tool, or a consumer that assigns its partitions itself
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
		// Until the member's Sync has been answered, it owns no partitions of this generation, and
		// another member may still own them.
		return ErrRebalanceInProgress
	}
	s.beginSession(now, g, m, m.session)
	return nil
}

// Committed returns the committed offset of a partition.
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
	for key, o := range g.offsets {
		all = append(all, CommitOffset{key.topic, key.index, o})
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

// DeleteOffsets deletes the committed offsets of partitions, except partitions of topics to which
// the group subscribes. It returns one error per partition, in the order of topicPartitions, or a
// single error for the whole request.
func (s *State) DeleteOffsets(groupID string, topicPartitions []TopicPartition) (errs []error,
	out Output,
	err error) {
	g := s.groups[groupID]
	switch {
	case g == nil:
		return nil, Output{}, ErrNotFound
	case g.phase != empty && g.protocolType != consumerProtocol:
		return nil, Output{}, ErrNotEmpty
	}
	subscribed := g.subscriptions()
	errs = make([]error, len(topicPartitions))
	for i, one := range topicPartitions {
		key := topicPartition{one.Topic, one.Partition}
		if subscribed.has(one.Topic) {
			errs[i] = ErrSubscribed
		} else if _, has := g.offsets[key]; has || len(g.pending[key]) > 0 {
			s.store(Record{Key: offsetKey(g.id, key)})
		}
	}
	return errs, s.take(), nil
}

// consumerProtocol is the protocol type of consumers, the only type for which the format of
// Protocol.Metadata is known.
const consumerProtocol = "consumer"

// subscriptions is the set of topics to which a group's members subscribe.
type subscriptions struct {
	topics map[string]bool
	// true if a member's metadata could not be decoded; all topics then count as subscribed
	all bool
}

func (s subscriptions) has(topic string) bool { return s.all || s.topics[topic] }

// subscriptions returns the topics to which the members subscribe. For protocol types other than
// consumer, it returns no topics.
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

// Delete deletes a group and its offsets. The group must have no members.
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

// tombstoneAll stores tombstones for all records of a group, including its offsets. Pending offsets
// also get tombstones, so that later markers of their transactions have no effect.
func (s *State) tombstoneAll(g *group) {
	for _, o := range s.AllCommitted(g.id) {
		s.store(Record{Key: offsetKey(g.id, topicPartition{o.Topic, o.Partition})})
	}
	for key := range g.pending {
		if _, committed := g.offsets[key]; !committed {
			s.store(Record{Key: offsetKey(g.id, key)})
		}
	}
	s.tombstoneGroup(g)
}

// tombstoneGroup stores tombstones for all records of a group except its offsets.
func (s *State) tombstoneGroup(g *group) {
	if g.stored {
		s.store(Record{Key: groupKey(g.id)})
	}
	if g.consumer != nil {
		s.storeAll(g.consumer.Tombstones())
	}
}

// Expire deletes offsets that are older than the retention. It also deletes groups that then have
// neither members nor offsets. While a group has members, offsets of topics to which the members
// subscribe do not expire (KIP-211).
//
// A partition's offset does not expire while the partition has a pending offset, and neither does a
// group with pending offsets (KAFKA-19163), because the tombstone would also delete the pending
// offsets.
//
// Expire may return somewhat more than limit records, because it checks the limit only between
// groups. If more is true, Expire must be called again.
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
		for key, o := range g.offsets {
			if !retained.has(key.topic) && len(g.pending[key]) == 0 && s.expired(now, g, o) {
				s.deleteOffset(g, key)
				left--
			}
		}
		if left == 0 && len(g.pending) == 0 && g.phase == empty {
			s.tombstoneGroup(g)
		}
	}
	return s.take(), false
}

// retainedTopics returns the topics whose offsets in the group do not expire. ok is false if no
// offset of the group may expire now, for example during a rebalance, when the subscriptions are
// unknown.
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
func (s *State) deleteOffset(g *group, key topicPartition) {
	s.store(Record{Key: offsetKey(g.id, key)})
	s.expiredCount++
}

// expired reports whether the retention of an offset has elapsed. The retention starts at the
// commit or, if the group became empty later, at that time.
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

// DeleteStaleOffsets deletes the offsets whose topic name and topic id are stale. stale recognizes
// deleted topics, even if a topic with another id was created with the same name. It is called once
// for each name and id.
func (s *State) DeleteStaleOffsets(stale func(topic string, id [16]byte) bool) Output {
	type identity struct {
		topic string
		id    [16]byte
	}
	known := map[identity]bool{}
	check := func(key topicPartition, o Offset) bool {
		topic := identity{key.topic, o.TopicID}
		isStale, checked := known[topic]
		if !checked {
			isStale = stale(topic.topic, topic.id)
			known[topic] = isStale
		}
		return isStale
	}
	for _, g := range s.groups {
		for key, o := range g.offsets {
			// Check the pending offsets too: the topic may have been created again, and the tombstone would
			// also delete the pending offsets of the new topic.
			if check(key, o) && allStale(key, g.pending[key], check) {
				s.deleteOffset(g, key)
			}
		}
		for key, offsets := range g.pending {
			if _, committed := g.offsets[key]; !committed && allStale(key, offsets, check) {
				s.deleteOffset(g, key)
			}
		}
	}
	return s.take()
}

// allStale reports whether all pending offsets of a partition are stale.
func allStale(key topicPartition, offsets map[int64]Offset,
	stale func(topicPartition, Offset) bool) bool {
	for _, o := range offsets {
		if !stale(key, o) {
			return false
		}
	}
	return true
}
