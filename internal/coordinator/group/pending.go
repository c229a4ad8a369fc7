package group

import (
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/state"
)

// This file contains the offsets that producers commit in transactions (KIP-98, KIP-447). Such an
// offset is pending until its transaction's marker is replayed. If the transaction is committed,
// the pending offset becomes a committed offset; if it is aborted, the pending offset is dropped.
//
// A pending offset becomes a committed offset only if its record comes later in the log than the
// record of the partition's committed offset. So the last record of a key decides, whatever the
// order of the markers. A partition of __consumer_offsets is compacted and keeps only the last
// record of a key. A coordinator that loads the compacted log must have the same offsets as one
// that has replayed all records (KAFKA-5247, KAFKA-14505).

// ErrUnstable is returned for a partition's offset if an open transaction has a pending offset for
// the partition.
var ErrUnstable = errors.New("an open transaction has a pending offset for the partition")

// pendingOffsets contains a group's pending offsets, by partition and producer id. No inner map is
// empty.
type pendingOffsets map[topicPartition]map[int64]Offset

// replayPending applies the record of an offset that is part of a transaction.
func (s *State) replayPending(g *group, key topicPartition, producer int64, o Offset) {
	if g.pending == nil {
		g.pending = pendingOffsets{}
	}
	if g.pending[key] == nil {
		g.pending[key] = map[int64]Offset{}
	}
	g.pending[key][producer] = o
	if s.producers[producer] == nil {
		s.producers[producer] = map[string]bool{}
	}
	s.producers[producer][g.id] = true
}

// ReplayMarker applies the marker that ends a producer's transaction. Like the records, markers
// must be replayed in log order.
func (s *State) ReplayMarker(_ time.Time, m state.Marker) ([]Answer, error) {
	for id := range s.producers[m.ProducerID] {
		g := s.groups[id]
		if g == nil {
			continue // the group was deleted together with its pending offsets
		}
		for key, offsets := range g.pending {
			o, had := offsets[m.ProducerID]
			if !had {
				continue
			}
			if delete(offsets, m.ProducerID); len(offsets) == 0 {
				delete(g.pending, key)
			}
			current, committed := g.offsets[key]
			if m.Commit && (!committed || o.record > current.record) {
				s.setOffset(g, key, o)
			}
		}
		s.deleteIfUnused(g)
	}
	delete(s.producers, m.ProducerID)
	return s.take().Answers, nil
}

// setOffset stores a committed offset.
func (s *State) setOffset(g *group, key topicPartition, o Offset) {
	if _, had := g.offsets[key]; !had {
		s.offsets++
	}
	g.offsets[key] = o
}

// IsStable reports whether no open transaction has a pending offset for the given partition.
func (s *State) IsStable(groupID, topic string, partition int32) bool {
	g := s.groups[groupID]
	return g == nil || len(g.pending[topicPartition{topic, partition}]) == 0
}

// CommitTransactional handles a TxnOffsetCommit request. The caller stores the output's records in
// a transactional batch of the producer. CommitTransactional returns one error per offset, in the
// order of c.Offsets, or a single error for the whole request.
func (s *State) CommitTransactional(now time.Time, c Commit) (errs []error, out Output, err error) {
	if err := s.groups[c.Group].checkTransactionalCommit(&c); err != nil {
		return nil, Output{}, err
	}
	errs = s.storeCommit(now, &c)
	return errs, s.take(), nil
}

// checkTransactionalCommit rejects transactional commits of former members, as checkCommit does for
// other commits (KIP-447). It accepts any commit without a member id, because producers before
// KIP-447 do not send one. Unlike checkCommit, it accepts commits while the group completes a
// rebalance, because a commit in the new generation cannot come from a former member. g may be nil.
func (g *group) checkTransactionalCommit(c *Commit) error {
	anonymous := c.Generation < 0 && c.Member == "" && c.Instance == ""
	switch {
	case anonymous:
		return nil
	case g == nil && c.Generation < 0, g != nil && g.isEmpty() && c.Generation < 0:
		return nil
	case g == nil:
		return ErrIllegalGeneration
	case g.consumer != nil:
		err := g.checkConsumerCommit(c)
		if errors.Is(err, consumer.ErrStaleEpoch) {
			return ErrIllegalGeneration // clients of TxnOffsetCommit know this error
		}
		return err
	}
	_, err := g.check(c.Member, c.Instance)
	if err == nil && g.generation != c.Generation {
		return ErrIllegalGeneration
	}
	return err
}

// isEmpty reports whether the group has no members.
func (g *group) isEmpty() bool {
	if g.consumer != nil {
		return g.consumer.Members() == 0
	}
	return g.phase == empty
}
