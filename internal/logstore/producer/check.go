package producer

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// Verified is what the caller of an append has verified with the transaction coordinator. With the
// zero value, a transactional batch is accepted only while its transaction is open in this log.
type Verified struct {
	// Transaction: the transaction is ongoing, and this partition is part of it (KIP-890).
	Transaction bool
	// EpochBump: the producer gets a new epoch with each transaction (transaction version 2).
	EpochBump bool
}

// EpochBumpVersion is the first transaction version whose markers carry a new producer epoch
// (KIP-890).
const EpochBumpVersion = 2

// EndTxn is a transaction marker that a coordinator wants written: the end of a transaction.
type EndTxn struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	Version          int16 // of the transaction; see EpochBumpVersion
}

// Check decides about a batch that is about to be appended, by Kafka's rules (KIP-98,
// ProducerAppendInfo), in this order. It changes nothing.
//
//  1. A batch with the same first and last sequence as a remembered batch is a duplicate.
//  2. A transactional batch needs a transaction that is open in this log or verified (KIP-890: a
//     batch that arrives after its marker would leave a transaction open that never ends).
//  3. A batch of an earlier epoch is fenced; a new epoch must begin at sequence 0; any other batch
//     must follow the last one without a gap.
//  4. While a transaction is open, its producer writes nothing outside of it.
//
// A producer that is not known may begin at any sequence (KIP-360): its batches may have been
// deleted or expired. A producer that is known by a marker alone must begin at 0, as in Kafka.
func (s *State) Check(b record.Batch, verified Verified) (duplicate *Batch, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	known, epoch := s.byID[id], b.ProducerEpoch()
	if duplicate := known.duplicateOf(b); duplicate != nil {
		return duplicate, nil
	}
	inTxn := known != nil && known.txnFirst != NoTransaction
	if b.Transactional() && !verified.Transaction && (!inTxn || known.epoch != epoch) {
		return nil, fmt.Errorf("%w: producer %d has no verified transaction on this partition",
			ErrInvalidTxnState, id)
	}
	if err := known.checkSequence(b, verified); err != nil {
		return nil, err
	}
	if inTxn && !b.Transactional() {
		return nil, fmt.Errorf("%w: producer %d writes outside of its open transaction",
			ErrInvalidTxnState, id)
	}
	return nil, nil
}

// duplicateOf returns the remembered batch that b repeats, nil if there is none. e is nil for an
// unknown producer.
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

// checkSequence checks a batch's epoch and first sequence; e is nil for an unknown producer.
func (e *entry) checkSequence(b record.Batch, verified Verified) error {
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	switch {
	case e == nil && b.Transactional() && verified.EpochBump && first != 0:
		// KIP-890: with a new epoch for each transaction, none can begin in the middle.
		return fmt.Errorf("%w: unknown producer %d begins with sequence %d, not 0",
			ErrOutOfOrderSequence, id, first)
	case e == nil:
		return nil
	case epoch < e.epoch:
		return fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidEpoch, id,
			e.epoch, epoch)
	case epoch > e.epoch && first != 0:
		return fmt.Errorf("%w: producer %d begins epoch %d with sequence %d, not 0",
			ErrOutOfOrderSequence, id, epoch, first)
	case epoch == e.epoch && first != nextSequence(e.lastSequence()):
		return fmt.Errorf("%w: producer %d sent sequence %d after %d", ErrOutOfOrderSequence, id,
			first, e.lastSequence())
	}
	return nil
}

// CheckMarker decides about a marker that is about to be written: neither its producer epoch nor
// its coordinator epoch may be older than the epoch in the state. From EpochBumpVersion on a marker
// bumps the epoch, so a marker of the same epoch is an old one too (KIP-890).
func (s *State) CheckMarker(end EndTxn) error {
	known := s.byID[end.ProducerID]
	if known == nil {
		return nil
	}
	if end.ProducerEpoch < known.epoch || end.Version >= EpochBumpVersion &&
		end.ProducerEpoch == known.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the marker %d", ErrInvalidEpoch,
			end.ProducerID, known.epoch, end.ProducerEpoch)
	}
	if end.CoordinatorEpoch < known.coordinatorEpoch {
		return fmt.Errorf("%w: producer %d has a marker of coordinator epoch %d, this one has %d",
			ErrCoordinatorFenced, end.ProducerID, known.coordinatorEpoch, end.CoordinatorEpoch)
	}
	return nil
}

// nextSequence returns the sequence after last; sequences wrap from 2^31-1 to 0.
func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}
