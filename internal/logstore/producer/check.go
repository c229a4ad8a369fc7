package producer

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// Verified is what the caller of an append has verified with the transaction coordinator. With the
// zero value, a transactional batch is accepted only if its transaction is already open in this
// log.
type Verified struct {
	// Transaction is true if the transaction is ongoing and includes this partition (KIP-890).
	Transaction bool
	// EpochBump is true if the producer gets a new epoch with each transaction (transaction version
	// 2).
	EpochBump bool
}

// EpochBumpVersion is the first transaction version whose markers carry a new producer epoch
// (KIP-890).
const EpochBumpVersion = 2

// EndTxn is a request of a transaction coordinator to write a marker, which ends a transaction.
type EndTxn struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	Version          int16 // of the transaction; see EpochBumpVersion
}

// Check decides whether a batch may be appended, by Kafka's rules (KIP-98, ProducerAppendInfo), in
// this order. It does not change the state.
//
//  1. A batch with the same first and last sequence number as a remembered batch is a duplicate.
//  2. The transaction of a transactional batch must be open in this log or verified (KIP-890).
//     Otherwise a batch that arrives after its marker would open a transaction that never ends.
//  3. A batch of an earlier producer epoch is rejected. The first batch of a new epoch must have
//     sequence number 0. Any other batch must follow the producer's last batch without a gap.
//  4. While a producer has an open transaction, its batches must belong to the transaction.
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

// duplicateOf returns the remembered batch with the same sequence numbers as b, nil if there is no
// such batch. e is nil for an unknown producer.
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

// checkSequence checks the producer epoch and the first sequence number of a batch. e is nil for an
// unknown producer.
func (e *entry) checkSequence(b record.Batch, verified Verified) error {
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	switch {
	case e == nil && b.Transactional() && verified.EpochBump && first != 0:
		// KIP-890: each transaction has a new epoch, so its first batch has sequence number 0.
		return fmt.Errorf("%w: unknown producer %d begins with sequence %d, not 0",
			ErrOutOfOrderSequence, id, first)
	case e == nil:
		return nil
	case epoch < e.epoch:
		return fmt.Errorf("%w: producer %d has epoch %d, the batch has epoch %d", ErrInvalidEpoch, id,
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

// CheckMarker decides whether a marker may be written. Neither its producer epoch nor its
// coordinator epoch may be older than the epoch in the state. From EpochBumpVersion on, a marker
// carries a new producer epoch, so a marker with the current producer epoch is also outdated
// (KIP-890).
func (s *State) CheckMarker(end EndTxn) error {
	known := s.byID[end.ProducerID]
	if known == nil {
		return nil
	}
	if end.ProducerEpoch < known.epoch || end.Version >= EpochBumpVersion &&
		end.ProducerEpoch == known.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the marker has epoch %d", ErrInvalidEpoch,
			end.ProducerID, known.epoch, end.ProducerEpoch)
	}
	if end.CoordinatorEpoch < known.coordinatorEpoch {
		return fmt.Errorf("%w: the last marker of producer %d has coordinator epoch %d, the new one %d",
			ErrCoordinatorFenced, end.ProducerID, known.coordinatorEpoch, end.CoordinatorEpoch)
	}
	return nil
}

// nextSequence returns the sequence number that follows the number last. Sequence numbers wrap from
// 2^31-1 to 0.
func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}
