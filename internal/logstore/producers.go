package logstore

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

const (
	// producerBatchesMax is how many batches of a producer are remembered: clients keep at most
	// five in flight, so a repeated batch is one of the last five.
	producerBatchesMax = 5
	// producerExpiry is how long an idle producer is remembered: Kafka's default of
	// producer.id.expiration.ms.
	producerExpiry = 24 * time.Hour
	// noSequence is the last sequence of an epoch without a batch. nextSequence of it is 0, with
	// which every epoch begins.
	noSequence = -1
)

// producerBatch is what is remembered of one batch. It never changes once it is in a producer's
// list: place hands a pointer to one out of the lock.
type producerBatch struct {
	firstSequence, lastSequence int32
	lastOffset                  int64
	offsetDelta                 int32 // lastOffset - offsetDelta is the base offset
	timestamp                   int64 // ms, the batch's max timestamp
}

// producer is what a log knows of one producer id.
type producer struct {
	epoch int16
	// the last ones of this epoch, oldest first, at most producerBatchesMax
	batches          []producerBatch
	lastSeen         int64 // ms; when the producer last wrote here, as well as we know
	coordinatorEpoch int32 // of its last transaction marker, -1: none
	txnFirst         int64 // first offset of its open transaction, noTxn if none is
}

// lastSequence returns the last sequence of the epoch, noSequence if it has none yet.
func (p *producer) lastSequence() int32 {
	if len(p.batches) == 0 {
		return noSequence
	}
	return p.batches[len(p.batches)-1].lastSequence
}

// noTxn stands for the first offset of a transaction where none is open: -1, as in Kafka's
// snapshot.
const noTxn = -1

// producers is a log's producer state: what makes a produce that is sent twice be appended once,
// and tells which transactions are open (KIP-98). It follows the batches in the log and nothing
// else, so that it can be made anew by reading them. The zero value knows nobody.
type producers struct {
	byID map[int64]*producer
	// open are the transactions without a marker, ascending by first offset: exactly the producers
	// whose txnFirst is not noTxn.
	open []openTxn
}

// openTxn is a transaction that nobody has decided yet.
type openTxn struct {
	producer int64
	first    int64 // offset of its first batch
}

// endedTxn is a transaction that a marker has ended.
type endedTxn struct {
	segment.AbortedTxn // as the transaction index has it, whether it was aborted or not
	aborted            bool
}

// get returns what is known of a producer, nil if nothing is.
func (ps *producers) get(id int64) *producer { return ps.byID[id] }

// count returns how many producers are known.
func (ps *producers) count() int { return len(ps.byID) }

// put adds a producer that is not known yet.
func (ps *producers) put(id int64, p *producer) {
	if ps.byID == nil {
		ps.byID = map[int64]*producer{}
	}
	ps.byID[id] = p
}

// firstOpen returns where the oldest open transaction begins; ok is false if none is open.
func (ps *producers) firstOpen() (offset int64, ok bool) {
	if len(ps.open) == 0 {
		return 0, false
	}
	return ps.open[0].first, true
}

// undecided is firstOpen, or math.MaxInt64 if no transaction is open.
func (ps *producers) undecided() int64 {
	if first, open := ps.firstOpen(); open {
		return first
	}
	return math.MaxInt64
}

// check tells what the rules say of a batch that is about to be appended: a duplicate (the batch
// that is there already), an error, or neither. It changes nothing.
//
// Kafka's rules (KIP-98, ProducerAppendInfo), in its order: a batch whose first and last sequence
// are those of a remembered one is a repeat; a transactional one needs a transaction that is open
// here or that the coordinator knows of (KIP-890: one that comes after its marker would stay open
// for ever); an earlier epoch is fenced; a new epoch begins at 0; any other batch has to follow the
// last without a gap; and within a transaction there are no other writes.
func (ps *producers) check(b record.Batch, verified Verified) (duplicate *producerBatch,
	err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	known, epoch := ps.get(id), b.ProducerEpoch()
	if duplicate := known.repeated(b); duplicate != nil {
		return duplicate, nil
	}
	inTxn := known != nil && known.txnFirst != noTxn
	if b.Transactional() && !verified.Transaction && (!inTxn || known.epoch != epoch) {
		return nil, fmt.Errorf("%w: producer %d has no transaction here that was verified",
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

// repeated returns the remembered batch that b repeats, nil if there is none. p may be nil: nothing
// is known then.
func (p *producer) repeated(b record.Batch) *producerBatch {
	if p == nil || p.epoch != b.ProducerEpoch() {
		return nil
	}
	for i := range p.batches {
		if p.batches[i].firstSequence == b.BaseSequence() &&
			p.batches[i].lastSequence == b.LastSequence() {
			return &p.batches[i]
		}
	}
	return nil
}

// checkSequence holds a batch's epoch and first sequence against what is known; p may be nil.
func (p *producer) checkSequence(b record.Batch, verified Verified) error {
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	switch {
	case p == nil && b.Transactional() && verified.EpochBump && first != 0:
		// KIP-890: with a new epoch for each transaction, one cannot begin in the middle.
		return fmt.Errorf("%w: producer %d is not known, and begins with sequence %d, not 0",
			ErrOutOfOrderSequence, id, first)
	case p == nil:
		// all of the producer's batches may have been deleted or expired: any sequence has to be
		// accepted
		return nil
	case epoch < p.epoch:
		return fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, id,
			p.epoch, epoch)
	case epoch > p.epoch && first != 0:
		return fmt.Errorf("%w: producer %d begins epoch %d with sequence %d, not 0",
			ErrOutOfOrderSequence, id, epoch, first)
	case epoch == p.epoch && first != nextSequence(p.lastSequence()):
		return fmt.Errorf("%w: producer %d sent sequence %d after %d", ErrOutOfOrderSequence, id,
			first, p.lastSequence())
	}
	return nil
}

// checkMarker tells whether a marker may be written: neither its producer's epoch nor its
// coordinator's may be an older one than the log knows. From transaction version 2 on a marker
// bumps the epoch, so one of the same epoch is an old one too (KIP-890).
func (ps *producers) checkMarker(end EndTxn) error {
	known := ps.get(end.ProducerID)
	if known == nil {
		return nil
	}
	if end.ProducerEpoch < known.epoch || end.Version >= bumpingVersion &&
		end.ProducerEpoch == known.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the marker %d", ErrInvalidProducerEpoch,
			end.ProducerID, known.epoch, end.ProducerEpoch)
	}
	if end.CoordinatorEpoch < known.coordinatorEpoch {
		return fmt.Errorf("%w: producer %d was told of epoch %d, the marker has %d",
			ErrCoordinatorFenced, end.ProducerID,
			known.coordinatorEpoch, end.CoordinatorEpoch)
	}
	return nil
}

// nextSequence returns the sequence after last; they wrap from 2^31-1 to 0.
func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}

// update takes in a batch that is in the log. It does not judge: what is in the log is what
// happened. Of a control batch it reads the record, of any other the header alone. ended is the
// transaction that the batch ends, nil if it ends none.
func (ps *producers) update(b record.Batch, seen time.Time) (ended *endedTxn, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	var marker record.Control
	if b.Control() {
		var ends bool
		if marker, ends, err = b.Marker(); err != nil || !ends {
			// an empty control batch, or one of a type nobody knows, says nothing of its producer
			return nil, err
		}
	}
	known := ps.get(id)
	if known == nil {
		known = &producer{epoch: b.ProducerEpoch(), coordinatorEpoch: -1, txnFirst: noTxn}
		ps.put(id, known)
	}
	if epoch := b.ProducerEpoch(); epoch != known.epoch {
		known.epoch = epoch
		known.batches = nil
	}
	known.lastSeen = seen.UnixMilli()
	if b.Control() { // it has no sequence
		known.coordinatorEpoch = marker.CoordinatorEpoch
		return ps.end(id, known, b.BaseOffset(), marker.Type == record.ControlAbort), nil
	}
	if b.Transactional() && known.txnFirst == noTxn {
		known.txnFirst = b.BaseOffset()
		// behind all that are open, as it lies behind them in the log
		ps.open = append(ps.open, openTxn{id, known.txnFirst})
	}
	if len(known.batches) == producerBatchesMax {
		// Into a new array: a shift would overwrite the batch that an answer to a duplicate may be
		// reading.
		known.batches = append(known.batches[:0:0], known.batches[1:]...)
	}
	known.batches = append(known.batches, producerBatch{
		firstSequence: b.BaseSequence(),
		lastSequence:  b.LastSequence(),
		lastOffset:    b.LastOffset(),
		offsetDelta:   b.LastOffsetDelta(),
		timestamp:     b.MaxTimestamp(),
	})
	return nil, nil
}

// end closes a producer's transaction with the marker at an offset; nil if it has none open: a
// marker without data decides nothing, and nobody need hear of it (KAFKA-10702, reference I23).
func (ps *producers) end(id int64, p *producer, marker int64, aborted bool) *endedTxn {
	if p.txnFirst == noTxn {
		return nil
	}
	ended := &endedTxn{segment.AbortedTxn{ProducerID: id, FirstOffset: p.txnFirst,
		LastOffset: marker, LastStable: marker + 1}, aborted}
	at, found := slices.BinarySearchFunc(ps.open, p.txnFirst,
		func(o openTxn, first int64) int { return cmp.Compare(o.first, first) })
	if found {
		ps.open = slices.Delete(ps.open, at, at+1)
	}
	if first, open := ps.firstOpen(); open {
		ended.LastStable = first
	}
	p.txnFirst = noTxn
	return ended
}

// forgetOpen takes all open transactions for none.
func (ps *producers) forgetOpen() {
	for _, o := range ps.open {
		ps.byID[o.producer].txnFirst = noTxn
	}
	ps.open = nil
}

// expire forgets producers that have been idle for producerExpiry. One with an open transaction
// stays, however long it is idle: a transaction that is forgotten is never decided, and its records
// would pass for committed ones.
func (ps *producers) expire(now time.Time) {
	for id, p := range ps.byID {
		if p.txnFirst == noTxn && now.UnixMilli()-p.lastSeen >= producerExpiry.Milliseconds() {
			delete(ps.byID, id)
		}
	}
}

// lastOffsets returns of each producer where its last data batch ends: the batches that cleaning
// keeps, empty if need be (reference I25); of one that has a marker only, its epoch.
func (ps *producers) lastOffsets() map[int64]clean.Producer {
	all := make(map[int64]clean.Producer, ps.count())
	for id, p := range ps.byID {
		last := clean.Producer{LastOffset: -1, Epoch: p.epoch}
		if len(p.batches) > 0 {
			last.LastOffset = p.batches[len(p.batches)-1].lastOffset
		}
		all[id] = last
	}
	return all
}
