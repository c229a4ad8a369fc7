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

// Errors of Check and CheckMarker.
var (
	// ErrInvalidEpoch means that a later epoch of the producer is known (KIP-98).
	ErrInvalidEpoch = errors.New("invalid producer epoch")
	// ErrOutOfOrderSequence means that an earlier batch of the producer is missing (KIP-98).
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrInvalidTxnState means that the transaction of the batch is not verified, or that the batch
	// does not belong to the producer's open transaction.
	ErrInvalidTxnState = errors.New("invalid transaction state")
	// ErrVerificationOutdated means that the transaction may have ended after it was verified. The
	// transaction must be verified again (KIP-890).
	ErrVerificationOutdated = errors.New("transaction verification outdated")
	// ErrCoordinatorFenced means that a later coordinator has written a marker for the producer.
	ErrCoordinatorFenced = errors.New("transaction coordinator fenced")
)

const (
	// batchesMax is the number of batches that are remembered for each producer. Clients have at
	// most five batches in flight, so a repeated batch is one of the last five.
	batchesMax = 5
	// Expiry is the time for which the state of an idle producer is kept. The value is Kafka's
	// default of producer.id.expiration.ms.
	Expiry = 24 * time.Hour
	// noSequence is the last sequence number of an epoch without a batch. nextSequence(noSequence)
	// is 0, the first sequence number of every epoch.
	noSequence = -1
	// NoTransaction is a transaction's first offset if no transaction is open. It is -1, as in
	// Kafka's snapshot.
	NoTransaction = -1
)

// Batch contains the fields of a batch that are remembered. A Batch never changes, so a pointer to
// a Batch may be read without the lock that guards the State.
type Batch struct {
	firstSequence, lastSequence int32
	LastOffset                  int64
	offsetDelta                 int32 // base offset is LastOffset - offsetDelta
	Timestamp                   int64 // ms; maximum timestamp of the batch
}

// BaseOffset returns the offset of the batch's first record.
func (b *Batch) BaseOffset() int64 { return b.LastOffset - int64(b.offsetDelta) }

// entry is the state of one producer id.
type entry struct {
	epoch int16
	// batches contains the last batches of this epoch, oldest first, at most batchesMax.
	batches          []Batch
	lastSeen         int64 // ms; latest known time at which the producer wrote to this log
	coordinatorEpoch int32 // coordinator epoch in the producer's last marker; -1 if there is none
	// txnFirst is the first offset of the producer's transaction that no marker has ended, or
	// NoTransaction. The transaction is open if State.isOpen reports so.
	txnFirst int64
	// marker is the number of the producer's last marker, as counted by State.markers; 0 if there
	// is no marker since the state was loaded.
	marker uint64
}

// lastOffset returns the offset of the last record in the producer's epoch. If no batch of the
// epoch is known, it returns the first offset of the transaction.
func (e *entry) lastOffset() int64 {
	if len(e.batches) == 0 {
		return e.txnFirst
	}
	return e.batches[len(e.batches)-1].LastOffset
}

// lastSequence returns the last sequence number in the producer's epoch, or noSequence.
func (e *entry) lastSequence() int32 {
	if len(e.batches) == 0 {
		return noSequence
	}
	return e.batches[len(e.batches)-1].lastSequence
}

// State is the producer state of a log as of one offset. The zero value contains no producer.
type State struct {
	byID map[int64]*entry
	// open contains the open transactions (isOpen), in ascending order of their first offsets.
	open []openTxn
	// start is the log start offset.
	start int64
	// markers is the number of markers that Update has applied. It is not in the snapshots.
	markers uint64
}

// openTxn is an open transaction.
type openTxn struct {
	producer int64
	first    int64     // offset of the transaction's first batch
	since    time.Time // time of the first batch, or later if a snapshot was loaded
}

// isOpen reports whether a producer has an open transaction: no marker has ended the transaction,
// and the log still contains a record of it. A transaction whose records are all below the log
// start must not block readers, because its marker may never arrive. For example, a replica that
// copies the log from the log start on may have the transaction's records from a diverged history,
// and then does not receive the marker.
func (s *State) isOpen(e *entry) bool {
	return e != nil && e.txnFirst != NoTransaction && e.lastOffset() >= s.start
}

// SetLogStart sets the log start offset. A transaction without a record at or above the log start
// is no longer open. The transaction stays in the snapshots, because a crash may revert the log
// start.
func (s *State) SetLogStart(start int64) {
	s.start = start
	s.open = slices.DeleteFunc(s.open,
		func(o openTxn) bool { return !s.isOpen(s.byID[o.producer]) })
}

// EndedTxn is a transaction that a marker has ended.
type EndedTxn struct {
	// AbortedTxn has the form of an entry in the transaction index, even if the transaction was
	// committed.
	segment.AbortedTxn
	Aborted bool
}

// Len returns the number of known producers.
func (s *State) Len() int { return len(s.byID) }

// put adds a producer that is not in the state yet.
func (s *State) put(id int64, e *entry) {
	if s.byID == nil {
		s.byID = map[int64]*entry{}
	}
	s.byID[id] = e
}

// Undecided returns the first offset of the oldest open transaction, or math.MaxInt64 if no
// transaction is open.
func (s *State) Undecided() int64 {
	if len(s.open) == 0 {
		return math.MaxInt64
	}
	return s.open[0].first
}

// HasOpen reports whether a producer has an open transaction in the given epoch.
func (s *State) HasOpen(id int64, epoch int16) bool {
	known := s.byID[id]
	return s.isOpen(known) && known.epoch == epoch
}

// Transaction describes an open transaction.
type Transaction struct {
	ProducerID int64
	Epoch      int16
	First      int64 // first batch's offset in this log; may be below the log start
	// Since is the time at which the first batch was written. If the log was opened after that, it
	// is the time of the last batch that the producer wrote before the log was opened.
	Since time.Time
}

// Open returns the number of open transactions, and the open transaction with the lowest first
// offset.
func (s *State) Open() (count int, oldest Transaction) {
	if len(s.open) == 0 {
		return 0, Transaction{ProducerID: -1, First: NoTransaction}
	}
	return len(s.open), s.transaction(s.open[0])
}

// Transactions returns all open transactions in ascending order of their first offsets.
func (s *State) Transactions() []Transaction {
	all := make([]Transaction, 0, len(s.open))
	for _, o := range s.open {
		all = append(all, s.transaction(o))
	}
	return all
}

func (s *State) transaction(o openTxn) Transaction {
	return Transaction{o.producer, s.byID[o.producer].epoch, o.first, o.since}
}

// Info describes one producer (DescribeProducers, KIP-664).
type Info struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1 if no batch of the epoch is known
	LastSeen         time.Time
	CoordinatorEpoch int32 // -1 if no marker of the producer is known
	TxnFirst         int64 // first offset of the open transaction, or NoTransaction
}

// Producers returns all known producers in ascending order of their ids.
func (s *State) Producers() []Info {
	all := make([]Info, 0, len(s.byID))
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		e, first := s.byID[id], int64(NoTransaction)
		if s.isOpen(e) {
			first = e.txnFirst
		}
		all = append(all, Info{ID: id, Epoch: e.epoch, LastSequence: e.lastSequence(),
			LastSeen: time.UnixMilli(e.lastSeen), CoordinatorEpoch: e.coordinatorEpoch,
			TxnFirst: first})
	}
	return all
}

// Last describes the last data batch of a producer.
type Last struct {
	LastOffset int64 // -1 if only a marker of the epoch is known
	Epoch      int16
	ExpiresAt  time.Time // time at which the producer expires without further writes
}

// LastBatches returns each producer's last data batch. Cleaning keeps these batches, without their
// records if necessary, because a start reads the last sequence numbers from them. A batch is
// identified by its offset, because sequence numbers repeat (KAFKA-8335).
func (s *State) LastBatches() map[int64]Last {
	all := make(map[int64]Last, len(s.byID))
	for id, e := range s.byID {
		last := Last{LastOffset: -1, Epoch: e.epoch,
			ExpiresAt: time.UnixMilli(e.lastSeen).Add(Expiry)}
		if len(e.batches) > 0 {
			last.LastOffset = e.batches[len(e.batches)-1].LastOffset
		}
		all[id] = last
	}
	return all
}

// Update applies a batch that is in the log. It decodes the record of a control batch, but only the
// header of any other batch. It returns the transaction that the batch ends, or nil if the batch
// ends no transaction. It fails if a control batch cannot be decoded.
func (s *State) Update(b record.Batch, seen time.Time) (ended *EndedTxn, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	var marker record.Control
	if b.Control() {
		var ends bool
		if marker, ends, err = b.Marker(); err != nil || !ends {
			// An empty control batch, or a control batch of an unknown type, does not change the
			// state.
			return nil, err
		}
	}
	known := s.byID[id]
	if known == nil {
		known = &entry{epoch: b.ProducerEpoch(), coordinatorEpoch: -1, txnFirst: NoTransaction}
		s.put(id, known)
	}
	wasOpen := s.isOpen(known)
	if epoch := b.ProducerEpoch(); epoch != known.epoch {
		known.epoch = epoch
		known.batches = nil
	}
	known.lastSeen = seen.UnixMilli()
	if b.Control() { // control batches have no sequence number
		known.coordinatorEpoch = marker.CoordinatorEpoch
		s.markers++
		known.marker = s.markers
		if wasOpen {
			ended = s.end(known, b.BaseOffset(), marker.Type == record.ControlAbort)
			ended.ProducerID = id
		}
		known.txnFirst = NoTransaction
		return ended, nil
	}
	known.remember(b)
	if !wasOpen {
		s.begin(id, known, b, seen)
	}
	return nil, nil
}

// begin updates the state after a data batch of a producer without an open transaction. The batch
// also replaces a transaction whose records are all below the log start.
func (s *State) begin(id int64, e *entry, b record.Batch, seen time.Time) {
	e.txnFirst = NoTransaction
	if !b.Transactional() {
		return
	}
	e.txnFirst = b.BaseOffset()
	if s.isOpen(e) { // false if a replay reads the batch from below the log start
		// The new transaction is appended to open, because its first offset is the highest.
		s.open = append(s.open, openTxn{id, e.txnFirst, seen})
	}
}

// remember adds a data batch to the remembered batches, and removes the oldest batch if there are
// too many.
func (e *entry) remember(b record.Batch) {
	if len(e.batches) == batchesMax {
		// The batches are copied to a new array. Shifting them in place would overwrite a Batch
		// that an append of a duplicate may be reading concurrently.
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

// end ends a producer's open transaction with a marker at the given offset. The caller sets the
// producer id of the result. If the producer has no open transaction, the marker ends nothing and
// needs no entry in the transaction index (KAFKA-10702).
func (s *State) end(e *entry, marker int64, aborted bool) *EndedTxn {
	ended := &EndedTxn{segment.AbortedTxn{FirstOffset: e.txnFirst,
		LastOffset: marker, LastStable: marker + 1}, aborted}
	index, found := slices.BinarySearchFunc(s.open, e.txnFirst,
		func(o openTxn, first int64) int { return cmp.Compare(o.first, first) })
	if found {
		s.open = slices.Delete(s.open, index, index+1)
	}
	if len(s.open) > 0 {
		ended.LastStable = s.open[0].first
	}
	return ended
}

// ForgetOpen removes all open transactions without ending them. It is used for a log that restarts
// without the batches of these transactions.
func (s *State) ForgetOpen() {
	for _, o := range s.open {
		s.byID[o.producer].txnFirst = NoTransaction
	}
	s.open = nil
}

// Expire removes producers that have been idle for Expiry, except producers with an open
// transaction.
func (s *State) Expire(now time.Time) {
	for id, e := range s.byID {
		if !s.isOpen(e) && now.UnixMilli()-e.lastSeen >= Expiry.Milliseconds() {
			delete(s.byID, id)
		}
	}
}

// Idle returns a copy of the producers whose last batch is below an offset.
func (s *State) Idle(below int64) State {
	idle := State{byID: map[int64]*entry{}}
	for id, e := range s.byID {
		if len(e.batches) > 0 && e.lastOffset() < below {
			copied := *e
			copied.batches = slices.Clone(e.batches)
			idle.byID[id] = &copied
		}
	}
	return idle
}

// Add adds those producers in other, a result of Idle, of which the state knows no batch. They are
// complete only as entries of a snapshot: transactions that are open in other are not open in the
// state.
func (s *State) Add(other State) {
	for id, e := range other.byID {
		if known := s.byID[id]; known == nil || len(known.batches) == 0 && known.epoch == e.epoch {
			s.put(id, e)
		}
	}
}
