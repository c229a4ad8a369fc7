package producer

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// Reasons for which an append is rejected.
var (
	// ErrInvalidEpoch means that the producer has a later epoch (KIP-98).
	ErrInvalidEpoch = errors.New("invalid producer epoch")
	// ErrOutOfOrderSequence means that an earlier batch of the producer is missing (KIP-98).
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrInvalidTxnState means that the transaction of the batch is not verified, or that the batch
	// is not part of the open transaction.
	ErrInvalidTxnState = errors.New("invalid transaction state")
	// ErrCoordinatorFenced means that a later coordinator has written a marker for the producer.
	ErrCoordinatorFenced = errors.New("transaction coordinator fenced")
)

const (
	// batchesMax is the number of batches that are remembered per producer: clients keep at most
	// five in flight, so a repeated batch is one of the last five.
	batchesMax = 5
	// Expiry is the time for which the state of an idle producer is kept: Kafka's default of
	// producer.id.expiration.ms.
	Expiry = 24 * time.Hour
	// noSequence is the last sequence of an epoch without a batch. nextSequence of it is 0, the
	// first sequence of every epoch.
	noSequence = -1
	// NoTransaction is the first offset of a transaction where none is open: -1, as in Kafka's
	// snapshot.
	NoTransaction = -1
)

// Batch contains the remembered fields of one batch. It never changes, so a pointer to one may be
// read without the lock that guards the State.
type Batch struct {
	firstSequence, lastSequence int32
	LastOffset                  int64
	offsetDelta                 int32 // LastOffset - offsetDelta is the base offset
	Timestamp                   int64 // ms, the batch's max timestamp
}

// BaseOffset returns the offset of the batch's first record.
func (b *Batch) BaseOffset() int64 { return b.LastOffset - int64(b.offsetDelta) }

// entry is the state of one producer id.
type entry struct {
	epoch int16
	// batches are the last batches of this epoch, oldest first, at most batchesMax.
	batches          []Batch
	lastSeen         int64 // ms; when the producer last wrote to this log, as far as is known
	coordinatorEpoch int32 // of its last transaction marker, -1 if there is none
	txnFirst         int64 // first offset of its open transaction, NoTransaction if none is open
}

// lastSequence returns the last sequence of the epoch, noSequence if there is none yet.
func (e *entry) lastSequence() int32 {
	if len(e.batches) == 0 {
		return noSequence
	}
	return e.batches[len(e.batches)-1].lastSequence
}

// State is the producer state of a log at one offset. The zero value knows no producer.
type State struct {
	byID map[int64]*entry
	// open are the transactions without a marker, ascending by first offset: exactly those of the
	// producers whose txnFirst is not NoTransaction.
	open []openTxn
}

// openTxn is an open transaction.
type openTxn struct {
	producer int64
	first    int64 // offset of its first batch
}

// EndedTxn is a transaction that a marker has ended.
type EndedTxn struct {
	segment.AbortedTxn // in the form of the transaction index, also if it was committed
	Aborted            bool
}

// Len returns the number of known producers.
func (s *State) Len() int { return len(s.byID) }

// put adds a producer that is not known yet.
func (s *State) put(id int64, e *entry) {
	if s.byID == nil {
		s.byID = map[int64]*entry{}
	}
	s.byID[id] = e
}

// Undecided returns the first offset of the oldest open transaction, math.MaxInt64 if none is open.
func (s *State) Undecided() int64 {
	if len(s.open) == 0 {
		return math.MaxInt64
	}
	return s.open[0].first
}

// HasOpen reports whether a producer has an open transaction in this epoch.
func (s *State) HasOpen(id int64, epoch int16) bool {
	known := s.byID[id]
	return known != nil && known.txnFirst != NoTransaction && known.epoch == epoch
}

// Info describes one producer (DescribeProducers, KIP-664).
type Info struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1 if the epoch has no batch
	LastSeen         time.Time
	CoordinatorEpoch int32 // -1 if the producer has no marker
	TxnFirst         int64 // NoTransaction if none is open
}

// Producers returns all known producers, ascending by id.
func (s *State) Producers() []Info {
	all := make([]Info, 0, len(s.byID))
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		e := s.byID[id]
		all = append(all, Info{ID: id, Epoch: e.epoch, LastSequence: e.lastSequence(),
			LastSeen: time.UnixMilli(e.lastSeen), CoordinatorEpoch: e.coordinatorEpoch,
			TxnFirst: e.txnFirst})
	}
	return all
}

// Last describes the last data batch of a producer.
type Last struct {
	LastOffset int64 // of its last data batch; -1 if only a marker of its epoch is known
	Epoch      int16
}

// LastBatches returns the last data batch of each producer. Cleaning keeps those batches, if need
// be without records: a start reads the last sequences from them. They are identified by offset
// because sequences repeat (KAFKA-8335).
func (s *State) LastBatches() map[int64]Last {
	all := make(map[int64]Last, len(s.byID))
	for id, e := range s.byID {
		last := Last{LastOffset: -1, Epoch: e.epoch}
		if len(e.batches) > 0 {
			last.LastOffset = e.batches[len(e.batches)-1].LastOffset
		}
		all[id] = last
	}
	return all
}

// Update applies a batch that is in the log. It reads the record of a control batch, and only the
// header of any other. It returns the transaction that the batch ends, nil if the batch ends none.
// It returns an error if a control batch cannot be read.
func (s *State) Update(b record.Batch, seen time.Time) (ended *EndedTxn, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	var marker record.Control
	if b.Control() {
		var ends bool
		if marker, ends, err = b.Marker(); err != nil || !ends {
			// an empty control batch, or one of an unknown type, does not concern its producer
			return nil, err
		}
	}
	known := s.byID[id]
	if known == nil {
		known = &entry{epoch: b.ProducerEpoch(), coordinatorEpoch: -1, txnFirst: NoTransaction}
		s.put(id, known)
	}
	if epoch := b.ProducerEpoch(); epoch != known.epoch {
		known.epoch = epoch
		known.batches = nil
	}
	known.lastSeen = seen.UnixMilli()
	if b.Control() { // a control batch has no sequence
		known.coordinatorEpoch = marker.CoordinatorEpoch
		return s.end(id, known, b.BaseOffset(), marker.Type == record.ControlAbort), nil
	}
	if b.Transactional() && known.txnFirst == NoTransaction {
		known.txnFirst = b.BaseOffset()
		// The transaction is the last one, because it begins at the end of the log.
		s.open = append(s.open, openTxn{id, known.txnFirst})
	}
	known.remember(b)
	return nil, nil
}

// remember adds a data batch to the last ones.
func (e *entry) remember(b record.Batch) {
	if len(e.batches) == batchesMax {
		// Append to a new array: shifting the batches would overwrite a Batch that the response to
		// a duplicate may be reading.
		e.batches = append(e.batches[:0:0], e.batches[1:]...)
	}
	e.batches = append(e.batches, Batch{
		firstSequence: b.BaseSequence(),
		lastSequence:  b.LastSequence(),
		LastOffset:    b.LastOffset(),
		offsetDelta:   b.LastOffsetDelta(),
		Timestamp:     b.MaxTimestamp(),
	})
}

// end closes a producer's transaction with the marker at an offset. It returns nil if none is open:
// a marker without data decides nothing and has no entry in the transaction index (KAFKA-10702).
func (s *State) end(id int64, e *entry, marker int64, aborted bool) *EndedTxn {
	if e.txnFirst == NoTransaction {
		return nil
	}
	ended := &EndedTxn{segment.AbortedTxn{ProducerID: id, FirstOffset: e.txnFirst,
		LastOffset: marker, LastStable: marker + 1}, aborted}
	at, found := slices.BinarySearchFunc(s.open, e.txnFirst,
		func(o openTxn, first int64) int { return cmp.Compare(o.first, first) })
	if found {
		s.open = slices.Delete(s.open, at, at+1)
	}
	if len(s.open) > 0 {
		ended.LastStable = s.open[0].first
	}
	e.txnFirst = NoTransaction
	return ended
}

// ForgetOpen closes all open transactions without deciding them: for a log that starts again
// without their batches.
func (s *State) ForgetOpen() {
	for _, o := range s.open {
		s.byID[o.producer].txnFirst = NoTransaction
	}
	s.open = nil
}

// Expire removes the producers that have been idle for Expiry, except those with an open
// transaction.
func (s *State) Expire(now time.Time) {
	for id, e := range s.byID {
		if e.txnFirst == NoTransaction && now.UnixMilli()-e.lastSeen >= Expiry.Milliseconds() {
			delete(s.byID, id)
		}
	}
}
