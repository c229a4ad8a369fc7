package cleaner

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/record"
)

// ledger is the model of a log: a list of all batches that were appended and not truncated. It has
// neither segments nor passes.
type ledger struct {
	batches []ledgerBatch
	end     int64
	start   int64
	// cleanable is the highest cleanable bound that any pass may have had. No pass has changed a
	// record at or above it.
	cleanable int64
	// passEnd is the log end at the time when the last pass may have run. A record below it may
	// have superseded a record that the pass removed.
	passEnd int64
	// lost contains the offsets of records that a pass has removed and whose superseding records an
	// unclean truncation has removed afterwards.
	lost      map[int64]bool
	truncated bool // true if the log was truncated; it may then end within an appended batch
	// retentionMin is the shortest tombstone retention configured so far. No tombstone may be
	// removed earlier.
	retentionMin time.Duration
	// blockedUntil maps a tombstone's offset to the time at which a check last found an older record
	// of the tombstone's key in the log. If no check has found one, it is the time at which a check
	// first found the tombstone.
	blockedUntil map[int64]time.Time
}

// ledgerBatch is a data batch or a transaction marker.
type ledgerBatch struct {
	base          int64
	records       []record.Record
	producer      int64 // -1 if the batch has no producer
	sequence      int32
	transactional bool
	marker        bool
	commit        bool
	wire          []byte // encoded batch, as the producer sent it
	forged        bool   // true if the batch has a timestamp that a leader rejects
}

func newLedger() ledger {
	return ledger{lost: map[int64]bool{}, blockedUntil: map[int64]time.Time{},
		retentionMin: 1 << 62}
}

func (b ledgerBatch) next() int64 { return b.base + max(1, int64(len(b.records))) }

func (l *ledger) append(b ledgerBatch) {
	l.batches = append(l.batches, b)
	l.end = b.next()
}

// truncateTo removes the batches that end above an offset. The log may end within a batch only if a
// pass has removed that whole batch.
func (l *ledger) truncateTo(end int64) {
	l.batches = slices.DeleteFunc(l.batches, func(b ledgerBatch) bool { return b.next() > end })
	l.end, l.cleanable = end, min(l.cleanable, end)
	maps.DeleteFunc(l.blockedUntil, func(offset int64, _ time.Time) bool { return offset >= end })
	maps.DeleteFunc(l.lost, func(offset int64, _ bool) bool { return offset >= end })
}

// truncate updates the ledger after a truncation of the log. If a pass has removed a record and the
// truncation removes the record that superseded it, the removed record is lost. A follower normally
// does not truncate that far, but it may do so if its leader was elected uncleanly. unclean reports
// whether the truncation went that far.
func (l *ledger) truncate(s *scenario) (unclean bool) {
	end := s.log.LogEnd()
	unclean = end < l.passEnd
	l.truncateTo(end)
	l.passEnd = min(l.passEnd, end)
	l.truncated = true
	// The log is empty, and its start may be within a batch.
	if s.log.LogStart() == end {
		l.batches, l.start = nil, end
		return unclean
	}
	if !unclean {
		return false
	}
	there := s.scan()
	for _, b := range l.batches {
		for _, r := range b.records {
			if _, found := there.records[r.Offset]; !found {
				l.lost[r.Offset] = true
			}
		}
	}
	return true
}

// nextSequence returns the sequence number of a producer's next batch.
func (l *ledger) nextSequence(producer int64) int32 {
	for _, b := range slices.Backward(l.batches) {
		if b.producer == producer && !b.marker {
			return b.sequence + int32(len(b.records))
		}
	}
	return 0
}

// lastOfProducers returns the last batch of each producer.
func (l *ledger) lastOfProducers() []ledgerBatch {
	last := map[int64]ledgerBatch{}
	var ids []int64
	for _, b := range l.batches {
		if b.producer < 0 || b.marker {
			continue
		}
		if _, known := last[b.producer]; !known {
			ids = append(ids, b.producer)
		}
		last[b.producer] = b
	}
	var all []ledgerBatch
	for _, id := range ids {
		all = append(all, last[id])
	}
	return all
}

// txnState is the state of a record's transaction.
type txnState int

const (
	txnCommitted txnState = iota // committed, or the record is in no transaction
	txnAborted
	txnOpen
)

// ledgerRecord is a record with the state of its transaction.
type ledgerRecord struct {
	*record.Record
	txn txnState
}

// all returns all records that are not lost, in the order of their offsets.
func (l *ledger) all() (all []ledgerRecord) {
	open := map[int64][]int{} // indexes in all, of the records in each producer's open transaction
	for i := range l.batches {
		b := &l.batches[i]
		if b.marker {
			state := txnAborted
			if b.commit {
				state = txnCommitted
			}
			for _, index := range open[b.producer] {
				all[index].txn = state
			}
			delete(open, b.producer)
			continue
		}
		for j := range b.records {
			r := ledgerRecord{Record: &b.records[j]}
			if l.lost[r.Offset] {
				continue
			}
			if b.transactional {
				r.txn = txnOpen
				open[b.producer] = append(open[b.producer], len(all))
			}
			all = append(all, r)
		}
	}
	return all
}

// sameRecord reports whether two records are equal in all parts.
func sameRecord(a, b *record.Record) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && sameBytes(a.Key, b.Key) &&
		sameBytes(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers,
			func(a, b record.Header) bool {
				return sameBytes(a.Key, b.Key) &&
					sameBytes(a.Value, b.Value)
			})
}

// sameBytes reports whether two values are equal. Null and empty are different.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// recordText returns a text with all parts of a record.
func recordText(r *record.Record) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d@%d %t %q=%t %q", r.Offset, r.Timestamp, r.Key == nil, r.Key,
		r.Value == nil, r.Value)
	for _, h := range r.Headers {
		fmt.Fprintf(&text, " %q:%t%q", h.Key, h.Value == nil, h.Value)
	}
	return text.String()
}
