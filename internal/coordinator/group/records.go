package group

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/state"
)

// The record formats of __consumer_offsets are Kafka's (GroupCoordinatorRecordHelpers). The version
// of a record's key determines the kind of the record: 0 and 1 are offsets, and 2 is a group of the
// classic protocol. Package consumer reads the key versions of the consumer protocol. Replay skips
// records with other key versions, which Heartwood does not write.
//
// Groups' values are written in version 3. Offsets' values are written in version 4, the first with
// a topic id, or in version 1 if the client has set an expiry.
const (
	offsetKeyVersion   = 1
	groupKeyVersion    = 2
	offsetValueVersion = 4
	expiryValueVersion = 1
	groupValueVersion  = 3
)

// ErrCorruptRecord is returned if a stored record cannot be decoded.
var ErrCorruptRecord = errors.New("corrupt group record")

// topicPartition identifies the partition for which an offset was committed.
type topicPartition struct {
	topic string
	index int32
}

// Offset is a committed offset.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // leader epoch of the committed position; -1: unknown
	Metadata    string
	TopicID     [16]byte // id of the topic; zero: unknown
	CommittedMs int64
	// ExpireMs is the expiry that the client has set (OffsetCommit below version 5). If it is -1, the
	// retention determines the expiry.
	ExpireMs int64
	// record is the offset of the record in the log of __consumer_offsets; -1: unknown
	record int64
}

func groupKey(group string) []byte {
	key := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return key.AppendTo(nil)
}

func offsetKey(group string, found topicPartition) []byte {
	key := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: found.topic,
		Partition: found.index}
	return key.AppendTo(nil)
}

func offsetRecord(group string, key topicPartition, o Offset) Record {
	value := kmsg.OffsetCommitValue{
		Version: offsetValueVersion, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch,
		Metadata: o.Metadata, CommitTimestamp: o.CommittedMs,
		ExpireTimestamp: o.ExpireMs, TopicID: o.TopicID,
	}
	if o.ExpireMs >= 0 {
		value.Version = expiryValueVersion
	}
	return Record{Key: offsetKey(group, key), Value: value.AppendTo(nil)}
}

// record returns the group record of the current generation. assigned returns a member's
// assignment.
func (g *group) record(now time.Time, assigned func(*member) []byte) Record {
	value := kmsg.GroupMetadataValue{
		Version: groupValueVersion, ProtocolType: g.protocolType, Generation: g.generation,
		Protocol: &g.protocol, Leader: &g.leader,
		CurrentStateTimestamp: now.UnixMilli(),
	}
	for _, m := range g.members {
		metadata, _ := m.metadata(g.protocol)
		stored := kmsg.GroupMetadataValueMember{
			MemberID: m.id, ClientID: m.clientID, ClientHost: m.clientHost, Subscription: metadata,
			Assignment:             assigned(m),
			RebalanceTimeoutMillis: int32(m.rebalance.Milliseconds()),
			SessionTimeoutMillis:   int32(m.session.Milliseconds()),
		}
		if m.instance != "" {
			stored.InstanceID = &m.instance
		}
		value.Members = append(value.Members, stored)
	}
	return Record{Key: groupKey(g.id), Value: value.AppendTo(nil)}
}

// emptyRecord returns a group record for the next generation, which has no members.
func (g *group) emptyRecord(now time.Time) Record {
	value := kmsg.GroupMetadataValue{
		Version: groupValueVersion, ProtocolType: g.protocolType, Generation: g.generation + 1,
		CurrentStateTimestamp: now.UnixMilli(),
	}
	return Record{Key: groupKey(g.id), Value: value.AppendTo(nil)}
}

// Replay is ReplayAt for a record without a transaction, whose position in the log is unknown.
func (s *State) Replay(now time.Time, key, value []byte) ([]Answer, error) {
	return s.ReplayAt(now, state.Stored{Record: Record{Key: key, Value: value}, Offset: -1,
		ProducerID: state.NoProducer})
}

// ReplayAt applies a stored record. Records must be replayed in log order. ReplayAt returns the
// answers to requests that were waiting for the record. In a transaction, only offsets are stored.
func (s *State) ReplayAt(now time.Time, r state.Stored) ([]Answer, error) {
	key, value := r.Key, r.Value
	if len(key) < 2 {
		return nil, fmt.Errorf("%w: key of %d bytes", ErrCorruptRecord, len(key))
	}
	var err error
	switch version := int16(key[0])<<8 | int16(key[1]); {
	case version >= 0 && version <= offsetKeyVersion:
		err = s.replayOffset(r)
	case r.ProducerID != state.NoProducer:
		err = fmt.Errorf("key version %d in a transaction", version)
	case version == groupKeyVersion:
		err = s.replayGroup(now, key, value)
	case consumer.Owns(version):
		err = s.replayConsumer(now, key, value)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorruptRecord, err)
	}
	return s.take().Answers, nil
}

func (s *State) replayOffset(r state.Stored) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(r.Key); err != nil {
		return err
	}
	key := topicPartition{s.topic(k.Topic), k.Partition}
	if r.Value == nil {
		if g := s.groups[k.Group]; g != nil {
			s.deleteOffsetOf(g, key)
		}
		return nil
	}
	o, err := readOffset(r.Value)
	if err != nil {
		return err
	}
	o.record = r.Offset
	g := s.groupOrNew(k.Group)
	if r.ProducerID != state.NoProducer {
		s.replayPending(g, key, r.ProducerID, o)
		return nil
	}
	s.setOffset(g, key, o)
	return nil
}

// deleteOffsetOf applies the tombstone of an offset. It also drops the partition's pending offsets,
// whose records precede the tombstone.
func (s *State) deleteOffsetOf(g *group, key topicPartition) {
	if _, had := g.offsets[key]; had {
		s.offsets--
		delete(g.offsets, key)
	}
	delete(g.pending, key)
	s.deleteIfUnused(g)
}

// readOffset decodes the value of an offset record.
func readOffset(value []byte) (Offset, error) {
	var v kmsg.OffsetCommitValue
	if err := readValue(&v, value, offsetValueVersion); err != nil {
		return Offset{}, err
	}
	o := Offset{Offset: v.Offset, LeaderEpoch: -1, Metadata: v.Metadata, TopicID: v.TopicID,
		CommittedMs: v.CommitTimestamp, ExpireMs: -1}
	if v.Version >= 3 {
		o.LeaderEpoch = v.LeaderEpoch
	}
	if v.Version == expiryValueVersion {
		o.ExpireMs = v.ExpireTimestamp
	}
	return o, nil
}

// topic returns the shared copy of a topic name.
func (s *State) topic(name string) string {
	if shared, ok := s.topics[name]; ok {
		return shared
	}
	s.topics[name] = name
	return name
}

// readValue decodes a record's value. The first two bytes are the version of the value, which must
// be between 0 and versionMax.
func readValue(to interface{ ReadFrom([]byte) error }, value []byte, versionMax int16) error {
	if len(value) < 2 {
		return fmt.Errorf("value of %d bytes", len(value))
	}
	if version := int16(value[0])<<8 | int16(value[1]); version < 0 || version > versionMax {
		return fmt.Errorf("unknown value version %d", version)
	}
	return to.ReadFrom(value)
}

// replayGroup applies a group record. While the shard is loading, it creates the members in the
// record. After that, the members already exist, because this coordinator has written the record.
func (s *State) replayGroup(now time.Time, key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return err
	}
	if value == nil {
		if g := s.groups[k.Group]; g != nil {
			g.stored, g.generation, g.protocolType, g.protocol, g.leader = false, 0, "", "", ""
			if s.loading {
				g.setMembers(nil)
				g.phase = empty
			}
			s.deleteIfUnused(g)
		}
		return nil
	}
	var v kmsg.GroupMetadataValue
	if err := readValue(&v, value, groupValueVersion); err != nil {
		return err
	}
	g := s.groupOrNew(k.Group)
	g.stored, g.protocolType, g.generation, g.protocol, g.leader = true, v.ProtocolType,
		v.Generation,
		deref(v.Protocol), deref(v.Leader)
	g.phaseSince = time.Time{}
	if v.Version >= 2 && v.CurrentStateTimestamp >= 0 {
		g.phaseSince = time.UnixMilli(v.CurrentStateTimestamp)
	}
	if s.loading {
		g.setMembers(v.Members)
	}
	if len(v.Members) == 0 {
		g.setPhase(empty)
		s.deleteIfUnused(g)
		return nil
	}
	g.setPhase(stable)
	for i := range v.Members {
		if m := g.byID[v.Members[i].MemberID]; m != nil {
			// Copy the assignment, because the caller reuses the record's bytes.
			m.assignment = bytes.Clone(v.Members[i].Assignment)
			s.answerSync(now, g, m, nil)
		}
	}
	if len(g.unsynced) == 0 && !s.loading {
		s.endPhase(g)
	}
	return nil
}

// setMembers replaces the group's members with the members in a group record.
func (g *group) setMembers(stored []kmsg.GroupMetadataValueMember) {
	for len(g.members) > 0 {
		leader := g.leader
		g.remove(g.members[0])
		g.leader = leader
	}
	for i := range stored {
		saved := &stored[i]
		if g.byID[saved.MemberID] != nil {
			continue
		}
		m := &member{
			id: saved.MemberID, instance: deref(saved.InstanceID),
			clientID:   saved.ClientID,
			clientHost: saved.ClientHost,
			session:    fromMillis(saved.SessionTimeoutMillis),
			rebalance:  fromMillis(saved.RebalanceTimeoutMillis),
			protocols:  []Protocol{{g.protocol, bytes.Clone(saved.Subscription)}},
		}
		if saved.RebalanceTimeoutMillis < 0 {
			// Records from the time before members had a rebalance timeout contain none.
			m.rebalance = m.session
		}
		g.add(m)
	}
}

func fromMillis(n int32) time.Duration { return time.Duration(max(0, n)) * time.Millisecond }

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
