package transaction

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrCorruptRecord is wrapped by errors of Replay.
var ErrCorruptRecord = errors.New("corrupt record of __transaction_state")

const (
	keyVersion   = 0
	valueVersion = 1 // version in which values are written; version 0 can be read too
	// lastEpochTag is the tag of the last producer epoch. No release up to Kafka 4.4 stores this epoch
	// (KAFKA-20357), so the tag is specific to Heartwood. Kafka assigns tags in sequence, and is far
	// from reaching this one.
	lastEpochTag = 20357
)

func compareRecords(a, b Record) int { return bytes.Compare(a.Key, b.Key) }

func encodeKey(id string) []byte {
	key := kmsg.NewTxnMetadataKey()
	key.Version, key.TransactionalID = keyVersion, id
	return key.AppendTo(nil)
}

func tombstone(id string) Record { return Record{Key: encodeKey(id)} }

// encode returns the record for an entry.
func encode(id string, e entry) Record {
	value := kmsg.NewTxnMetadataValue()
	value.Version = valueVersion
	value.ProducerID, value.ProducerEpoch = e.producer.ID, e.producer.Epoch
	value.PreviousProducerID, value.NextProducerID = e.previousID, e.nextID
	value.NextProducerEpoch = e.nextEpoch
	value.TimeoutMillis = int32(e.timeout.Milliseconds())
	value.State = kmsg.TransactionState(e.phase)
	value.LastUpdateTimestamp, value.StartTimestamp = e.changed.UnixMilli(), -1
	if !e.started.IsZero() {
		value.StartTimestamp = e.started.UnixMilli()
	}
	value.ClientTransactionVersion = e.version
	if e.phase != Empty { // in phase Empty the array is null
		value.Topics = []kmsg.TxnMetadataValueTopic{}
	}
	for _, p := range e.partitions {
		if n := len(value.Topics); n == 0 || value.Topics[n-1].Topic != p.Topic {
			value.Topics = append(value.Topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		last := &value.Topics[len(value.Topics)-1]
		last.Partitions = append(last.Partitions, p.Index)
	}
	if e.lastEpoch != noEpoch {
		value.UnknownTags.Set(lastEpochTag, binary.BigEndian.AppendUint16(nil, uint16(e.lastEpoch)))
	}
	return Record{Key: encodeKey(id), Value: value.AppendTo(nil)}
}

// decode returns the entry in a record's value.
func decode(content []byte) (entry, error) {
	var v kmsg.TxnMetadataValue
	if len(content) < 2 {
		return entry{}, fmt.Errorf("value of %d bytes", len(content))
	}
	if version := int16(binary.BigEndian.Uint16(content)); version < 0 || version > valueVersion {
		return entry{}, fmt.Errorf("unknown value version %d", version)
	}
	if err := v.ReadFrom(content); err != nil {
		return entry{}, err
	}
	e := entry{
		producer:   Producer{v.ProducerID, v.ProducerEpoch},
		previousID: v.PreviousProducerID, nextID: v.NextProducerID, nextEpoch: v.NextProducerEpoch,
		lastEpoch: noEpoch, timeout: time.Duration(v.TimeoutMillis) * time.Millisecond,
		phase: Phase(v.State), changed: time.UnixMilli(v.LastUpdateTimestamp),
		version: v.ClientTransactionVersion,
	}
	if !e.phase.valid() {
		return entry{}, fmt.Errorf("unknown phase %d", int8(e.phase))
	}
	if v.StartTimestamp >= 0 {
		e.started = time.UnixMilli(v.StartTimestamp)
	}
	v.UnknownTags.Each(func(tag uint32, content []byte) {
		if tag == lastEpochTag && len(content) == 2 {
			e.lastEpoch = int16(binary.BigEndian.Uint16(content))
		}
	})
	e.partitions = partitionsOf(v.Topics)
	return e, nil
}

func partitionsOf(topics []kmsg.TxnMetadataValueTopic) (all []Partition) {
	for i := range topics {
		for _, index := range topics[i].Partitions {
			all = append(all, Partition{topics[i].Topic, index})
		}
	}
	slices.SortFunc(all, comparePartitions)
	return slices.Compact(all)
}

// Replay applies a stored record. Records must be replayed in log order. If the record contains a
// transaction's outcome, Replay returns the transaction's marker, except during loading.
func (s *State) Replay(now time.Time, key, value []byte) ([]Answer, error) {
	if len(key) < 2 {
		return nil, fmt.Errorf("%w: key of %d bytes", ErrCorruptRecord, len(key))
	}
	if binary.BigEndian.Uint16(key) != keyVersion {
		return nil, nil // a later version of Kafka wrote the record
	}
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorruptRecord, err)
	}
	if value == nil {
		s.forget(k.TransactionalID)
		return nil, nil
	}
	e, err := decode(value)
	if err != nil {
		return nil, fmt.Errorf("%w: id %q: %w", ErrCorruptRecord, k.TransactionalID, err)
	}
	return s.store(now, k.TransactionalID, e), nil
}

// forget removes a transactional id.
func (s *State) forget(id string) {
	if t := s.byID[id]; t != nil {
		s.clearTimers(t)
		delete(s.byID, id)
	}
}

// store replaces the entry of a transactional id.
func (s *State) store(now time.Time, id string, e entry) []Answer {
	t := s.byID[id]
	if t == nil {
		t = &transaction{id: id}
		s.byID[id] = t
	}
	for i := range e.partitions {
		e.partitions[i].Topic = s.topic(e.partitions[i].Topic)
	}
	before := t.phase // phase before the record; Empty for a new transactional id
	if t.producer != e.producer {
		t.connection = 0
	}
	t.entry = e
	if s.loading {
		return nil
	}
	return s.entered(now, t, before)
}

// topic returns the shared copy of a topic name.
func (s *State) topic(name string) string {
	if shared, ok := s.topics[name]; ok {
		return shared
	}
	s.topics[name] = name
	return name
}

// entered updates a transactional id's volatile state after a record.
func (s *State) entered(now time.Time, t *transaction, before Phase) []Answer {
	if t.phase == Ongoing {
		if before != Ongoing {
			s.setAbortTimer(now, t)
		}
		return nil
	}
	s.timers.Clear(TimerKey{t.id, abortTimer})
	if !t.phase.prepared() {
		s.timers.Clear(TimerKey{t.id, completeTimer})
		t.unmarked = nil
		return nil
	}
	s.count(t)
	if len(t.partitions) == 0 { // Complete* follows in the same Output
		t.unmarked = nil
		s.timers.Set(TimerKey{t.id, completeTimer}, retryInterval)
		return nil
	}
	return []Answer{s.mark(t)}
}

func (s *State) clearTimers(t *transaction) {
	for _, kind := range []TimerKind{abortTimer, parkedTimer, completeTimer} {
		s.timers.Clear(TimerKey{t.id, kind})
	}
}

// count adds a transaction that has just ended to the statistics.
func (s *State) count(t *transaction) {
	switch {
	case t.ownAbort == timedOut:
		s.ended.TimedOut++
	case t.ownAbort == fenced:
		s.ended.Fenced++
	case t.phase == PrepareCommit:
		s.ended.Committed++
	default:
		s.ended.Aborted++
	}
	t.ownAbort = byClient
}
