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

// ledger is the naive model of a log: a list of everything that was appended and not cut off. It
// knows nothing of segments or passes.
type ledger struct {
	batches []ledgerBatch
	end     int64
	start   int64
	// cleanable is the highest bound that any pass may have had: what is at or above it was never
	// touched.
	cleanable int64
	// where the log ended when a pass may last have run: what is below has decided on what goes
	known int64
	// records that an unclean truncation took with what had superseded them
	lost      map[int64]bool
	truncated bool // so the log may end where no batch does
	// retentionMin is the shortest of all retentions there were: no tombstone goes sooner.
	retentionMin time.Duration
	// tombstone -> when a check last saw an older record of its key, or the tombstone for the first
	// time
	blocked map[int64]time.Time
}

// ledgerBatch is a batch or a marker.
type ledgerBatch struct {
	base          int64
	records       []record.Record
	producer      int64 // -1: none
	sequence      int32
	transactional bool
	marker        bool
	commit        bool
	wire          []byte // as it was sent
	forged        bool   // with a timestamp that no leader takes
}

func newLedger() ledger {
	return ledger{lost: map[int64]bool{}, blocked: map[int64]time.Time{}, retentionMin: 1 << 62}
}

func (b ledgerBatch) next() int64 { return b.base + max(1, int64(len(b.records))) }

func (l *ledger) append(b ledgerBatch) {
	l.batches = append(l.batches, b)
	l.end = b.next()
}

// cut drops what is at or above an offset. A batch in which the log can end was cleaned away whole.
func (l *ledger) cut(end int64) {
	l.batches = slices.DeleteFunc(l.batches, func(b ledgerBatch) bool { return b.next() > end })
	l.end, l.cleanable = end, min(l.cleanable, end)
	maps.DeleteFunc(l.blocked, func(offset int64, _ time.Time) bool { return offset >= end })
	maps.DeleteFunc(l.lost, func(offset int64, _ bool) bool { return offset >= end })
}

// truncate follows the log's truncation. What was superseded by what was cut off, and cleaned away,
// is gone for good: a follower never cuts there, an unclean election may.
func (l *ledger) truncate(s *stage) (unclean bool) {
	end := s.log.LogEnd()
	unclean = end < l.known
	l.cut(end)
	l.known = min(l.known, end)
	l.truncated = true
	// nothing is left, and nothing known of what was: the log begins anew, and be it within a batch
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

// nextSequence is what a producer numbers its next batch with.
func (l *ledger) nextSequence(producer int64) int32 {
	for _, b := range slices.Backward(l.batches) {
		if b.producer == producer && !b.marker {
			return b.sequence + int32(len(b.records))
		}
	}
	return 0
}

// lastOfProducers are the last batches of all producers.
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

// fate is what became of a record's transaction.
type txnFate int

const (
	decidedTxnFate txnFate = iota // committed, or in no transaction
	abortedTxnFate
	openTxnFate
)

// ledgerRecord is a record with what became of its transaction.
type ledgerRecord struct {
	*record.Record
	fate txnFate
}

// all lists the records, in the order of offsets.
func (l *ledger) all() (all []ledgerRecord) {
	open := map[int64][]int{} // producer -> indexes in all
	for i := range l.batches {
		b := &l.batches[i]
		if b.marker {
			fate := abortedTxnFate
			if b.commit {
				fate = decidedTxnFate
			}
			for _, at := range open[b.producer] {
				all[at].fate = fate
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
				r.fate = openTxnFate
				open[b.producer] = append(open[b.producer], len(all))
			}
			all = append(all, r)
		}
	}
	return all
}

// sameRecord compares all of two records that must never change.
func sameRecord(a, b *record.Record) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && sameBytes(a.Key, b.Key) &&
		sameBytes(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers,
			func(a, b record.Header) bool {
				return sameBytes(a.Key, b.Key) &&
					sameBytes(a.Value, b.Value)
			})
}

// sameBytes holds null and nothing for two things.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// recordText is all of a record that must never change.
func recordText(r *record.Record) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d@%d %t %q=%t %q", r.Offset, r.Timestamp, r.Key == nil, r.Key,
		r.Value == nil, r.Value)
	for _, h := range r.Headers {
		fmt.Fprintf(&text, " %q:%t%q", h.Key, h.Value == nil, h.Value)
	}
	return text.String()
}
