package producer

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// Verified contains the results of a verification with the transaction coordinator before an
// append. With the zero value, a transactional batch is accepted only if its transaction is already
// open in this log.
type Verified struct {
	// Transaction is true if the transaction is ongoing and includes this partition (KIP-890).
	Transaction bool
	// EpochBump is true if the producer gets a new epoch with each transaction (transaction version
	// 2).
	EpochBump bool
	// Unsequenced is true if a coordinator has built the batch for the producer, from a
	// TxnOffsetCommit. The batch's sequence numbers have no meaning, so two equal batches are not
	// duplicates.
	Unsequenced bool
	// Guard is the verification guard that was taken before the coordinator was asked. The zero
	// value is not checked.
	Guard Guard
}

// Guard is a verification guard (KIP-890). It detects that a transaction may have ended between the
// coordinator's answer and the append, because a marker of the producer was written meanwhile, or
// the log's leader epoch has changed.
type Guard struct {
	taken       bool
	leaderEpoch int32
	marker      uint64 // entry.marker
}

// Guard returns a producer's verification guard, for a log in the given leader epoch.
func (s *State) Guard(id int64, leaderEpoch int32) Guard {
	guard := Guard{taken: true, leaderEpoch: leaderEpoch}
	if known := s.byID[id]; known != nil {
		guard.marker = known.marker
	}
	return guard
}

// CheckGuard fails with ErrVerificationOutdated if a transactional batch's verification guard no
// longer applies. The caller must then verify the transaction again.
func (s *State) CheckGuard(b record.Batch, verified Verified, leaderEpoch int32) error {
	if !verified.Guard.taken || !b.Transactional() ||
		verified.Guard == s.Guard(b.ProducerID(), leaderEpoch) {
		return nil
	}
	return fmt.Errorf("%w: a transaction of producer %d ended, or the leader changed",
		ErrVerificationOutdated, b.ProducerID())
}

// EpochBumpVersion is the first transaction version whose markers carry a new producer epoch
// (KIP-890).
const EpochBumpVersion = 2

// EndTxn is a transaction coordinator's request to write a marker, which ends a transaction.
type EndTxn struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	Version          int16 // transaction version; see EpochBumpVersion
	// Superseded reports whether the coordinator has sent markers over a later connection than the
	// request's connection. It may be nil.
	Superseded func() bool
}

// Check decides whether a batch may be appended. It does not change the state. It applies Kafka's
// rules (KIP-98, ProducerAppendInfo) in this order:
//
//  1. A batch with the same first and last sequence number as a remembered batch is a duplicate.
//  2. A batch of an earlier producer epoch is rejected. This rule precedes rule 3, because this is
//     the only error from which a producer that stalled past its transaction's timeout recovers
//     (KAFKA-19690).
//  3. The transaction of a transactional batch must be open in this log or verified (KIP-890).
//     Otherwise a batch that arrives after its marker would open a transaction that never ends.
//  4. A batch is rejected if a transaction of an earlier epoch is still open in this log. The
//     coordinator knows only the later epoch, so its marker would end the earlier transaction
//     together with the batch's transaction.
//  5. The first batch of a new epoch must have sequence number 0. Any other batch must follow the
//     producer's last batch without a gap.
//  6. While a producer has an open transaction, its batches must belong to the transaction.
//
// The first batch of an unknown producer may have any sequence number, because earlier batches may
// have been deleted, or the producer may have expired (KIP-360). If only a marker of the producer
// is known, the first batch must have sequence number 0, as in Kafka.
func (s *State) Check(b record.Batch, verified Verified) (duplicate *Batch, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	known, epoch := s.byID[id], b.ProducerEpoch()
	if duplicate := known.duplicateOf(b); duplicate != nil && !verified.Unsequenced {
		return duplicate, nil
	}
	if err := s.CheckEpoch(id, epoch); err != nil {
		return nil, err
	}
	inTxn := s.isOpen(known)
	switch {
	case b.Transactional() && !verified.Transaction && (!inTxn || known.epoch != epoch):
		return nil, fmt.Errorf("%w: producer %d has no verified transaction on this partition",
			ErrInvalidTxnState, id)
	case b.Transactional() && inTxn && known.epoch != epoch:
		return nil, fmt.Errorf("%w: a transaction of producer %d in epoch %d is still open here",
			ErrInvalidTxnState, id, known.epoch)
	}
	if !verified.Unsequenced {
		if err := known.checkSequence(b, verified); err != nil {
			return nil, err
		}
	}
	if inTxn && !b.Transactional() {
		return nil, fmt.Errorf("%w: producer %d writes outside of its open transaction",
			ErrInvalidTxnState, id)
	}
	return nil, nil
}

// CheckEpoch fails with ErrInvalidEpoch if a later epoch of the producer is known.
func (s *State) CheckEpoch(id int64, epoch int16) error {
	if known := s.byID[id]; known != nil && epoch < known.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the batch has epoch %d", ErrInvalidEpoch,
			id, known.epoch, epoch)
	}
	return nil
}

// duplicateOf returns the remembered batch with the same sequence numbers as b, or nil if there is
// no such batch. e is nil for an unknown producer.
func (e *entry) duplicateOf(b record.Batch) *Batch {
	if e == nil || e.epoch != b.ProducerEpoch() {
		return nil
	}
	for i := range e.batches {
		if e.batches[i].firstSequence == b.BaseSequence() &&
			e.batches[i].lastSequence == b.LastSequence() {
			return &e.batches[i]
		}
	}
	return nil
}

// checkSequence checks the first sequence number of a batch whose epoch is not outdated. e is nil
// for an unknown producer.
func (e *entry) checkSequence(b record.Batch, verified Verified) error {
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	switch {
	case e == nil && b.Transactional() && verified.EpochBump && first != 0:
		// KIP-890: each transaction has a new epoch, so the transaction's first batch has sequence
		// number 0.
		return fmt.Errorf("%w: unknown producer %d begins with sequence %d, not 0",
			ErrOutOfOrderSequence, id, first)
	case e == nil:
		return nil
	case epoch > e.epoch && first != 0:
		return fmt.Errorf("%w: producer %d begins epoch %d with sequence %d, not 0",
			ErrOutOfOrderSequence, id, epoch, first)
	case epoch == e.epoch && first != nextSequence(e.lastSequence()):
		return fmt.Errorf("%w: producer %d sent sequence %d after %d", ErrOutOfOrderSequence, id,
			first, e.lastSequence())
	}
	return nil
}

// CheckMarker decides whether a marker may be written. Neither its producer epoch nor its
// coordinator epoch may be older than the epoch in the state.
//
// From EpochBumpVersion on, a marker carries a new producer epoch. If this epoch is already known
// and no transaction is open, the log contains the marker, and the coordinator repeats it because
// the coordinator has not received the response. CheckMarker then reports repeated: the marker must
// be acknowledged but not written again (KAFKA-19999). If a transaction is open in this epoch, it
// is the next transaction, which the marker must not end (KIP-890).
//
// Below EpochBumpVersion, successive transactions have the same epoch. A marker that was delayed on
// a broken connection would end the next transaction, because the coordinator has repeated it over
// another connection and has completed its transaction. Such a marker is rejected; Kafka does not
// reject it.
func (s *State) CheckMarker(end EndTxn) (repeated bool, err error) {
	if end.Version < EpochBumpVersion && end.Superseded != nil && end.Superseded() {
		return false, fmt.Errorf("%w: the marker of producer %d has arrived over a connection "+
			"that its sender has replaced", ErrCoordinatorFenced, end.ProducerID)
	}
	known := s.byID[end.ProducerID]
	if known == nil {
		return false, nil
	}
	bumped := end.Version >= EpochBumpVersion && end.ProducerEpoch == known.epoch
	switch {
	case end.ProducerEpoch < known.epoch:
		return false, fmt.Errorf("%w: producer %d has epoch %d, the marker has epoch %d",
			ErrInvalidEpoch, end.ProducerID, known.epoch, end.ProducerEpoch)
	case end.CoordinatorEpoch < known.coordinatorEpoch:
		return false, fmt.Errorf(
			"%w: the last marker of producer %d has coordinator epoch %d, the new one %d",
			ErrCoordinatorFenced, end.ProducerID, known.coordinatorEpoch, end.CoordinatorEpoch)
	case bumped && s.isOpen(known):
		return false, fmt.Errorf("%w: the marker has epoch %d, in which the next transaction of "+
			"producer %d is open", ErrInvalidEpoch, end.ProducerEpoch, end.ProducerID)
	}
	return bumped, nil
}

// nextSequence returns the sequence number after last. Sequence numbers wrap from 2^31-1 to 0.
func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}
