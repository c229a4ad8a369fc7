package inspect

import (
	"errors"
	"fmt"
	"io/fs"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// txnLine is an entry of the transaction index.
type txnLine struct {
	File             string `json:"file"`
	ProducerID       int64  `json:"producerId"`
	FirstOffset      int64  `json:"firstOffset"`
	LastOffset       int64  `json:"lastOffset"` // offset of the marker
	LastStableOffset int64  `json:"lastStableOffset"`
	Problem          string `json:"problem,omitempty"`
}

func newTxnLine(path string, raw []byte) txnLine {
	entry, err := segment.ParseAbortedTxn(raw)
	l := txnLine{File: path, ProducerID: entry.ProducerID, FirstOffset: entry.FirstOffset,
		LastOffset: entry.LastOffset, LastStableOffset: entry.LastStable}
	if err != nil {
		l.Problem = err.Error()
	}
	return l
}

func (l txnLine) text() string {
	if l.Problem != "" {
		return fmt.Sprintf("aborted problem=%q", l.Problem)
	}
	return fmt.Sprintf("aborted producer=%d offsets=%d-%d lastStable=%d", l.ProducerID,
		l.FirstOffset, l.LastOffset, l.LastStableOffset)
}

// transactions tracks the transactions in the segments of a directory, and compares them with the
// transaction indexes. It does not know the transactions that were open at the first segment, and
// cleaning may have removed batches. So an entry may begin before the first known batch of its
// transaction, and a transaction without a known batch may or may not have an entry.
//
// A transaction that has only empty batches left needs no entry either, because it has no records
// that a reader must skip. Cleaning keeps such empty batches for the state of their producers.
// Kafka's cleaner also keeps the entry (I22); Heartwood's cleaner removes it.
type transactions struct {
	dir    string
	open   map[int64]openTxn // by producer id
	cursor cursor[segment.AbortedTxn]
}

// openTxn is the state of an open transaction, computed from the batches read so far.
type openTxn struct {
	first   int64 // offset of the first known batch
	records bool  // true if at least one batch contains records
}

// begin starts the checks of a segment.
func (t *transactions) begin(v *verifier, f file) error {
	if t.open == nil || t.dir != f.dir {
		t.dir, t.open = f.dir, map[int64]openTxn{}
	}
	t.cursor = cursor[segment.AbortedTxn]{
		path: f.with(segment.TxnIndexExtension), find: v.find,
		parse: func(raw []byte) segment.AbortedTxn {
			entry, err := segment.ParseAbortedTxn(raw)
			if err != nil {
				// No marker has the offset -1, so this entry is reported as a problem.
				entry.LastOffset = -1
			}
			return entry
		},
		ascend: func(a, b segment.AbortedTxn) bool {
			return a.LastOffset < b.LastOffset && a.LastStable <= b.LastStable
		},
	}
	if _, err := v.fsys.Stat(t.cursor.path); errors.Is(err, fs.ErrNotExist) {
		return nil // correct if the segment contains no aborted transaction
	}
	return t.cursor.open(v.fsys, segment.AbortedTxnBytes)
}

func (t *transactions) close() error {
	if t.cursor.file == nil {
		return nil
	}
	return t.cursor.file.Close()
}

// add compares a batch with the index. If no earlier batch is missing, the index entry of the
// batch's transaction must match exactly.
func (t *transactions) add(v *verifier, b batch) error {
	exact := v.dir.exact()
	if b.tooLarge || b.ProducerID() < 0 {
		return t.skipTo(b.BaseOffset())
	}
	if b.Transactional() && !b.Control() {
		known, open := t.open[b.ProducerID()]
		if !open {
			known.first = b.BaseOffset()
		}
		known.records = known.records || b.Count() > 0
		t.open[b.ProducerID()] = known
	}
	marker, ends, err := b.Marker()
	if err != nil || !ends {
		// The batch is invalid, and checkBatch has already reported it.
		return t.skipTo(b.BaseOffset())
	}
	if err := t.skipTo(b.BaseOffset()); err != nil {
		return err
	}
	ended, known := t.open[b.ProducerID()]
	first := ended.first
	delete(t.open, b.ProducerID())
	entry, exists := t.cursor.entry, t.cursor.has && t.cursor.entry.LastOffset == b.BaseOffset()
	aborted := marker.Type == record.ControlAbort
	switch {
	case exists && !aborted:
		t.cursor.find(t.cursor.path, t.cursor.position, "the marker at offset %d commits",
			entry.LastOffset)
	case exists && entry.ProducerID != b.ProducerID():
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the marker at offset %d is of producer %d, not %d",
			entry.LastOffset, b.ProducerID(), entry.ProducerID)
	case exists && known && entry.FirstOffset > first:
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the transaction of producer %d begins at offset %d, not %d",
			entry.ProducerID, first, entry.FirstOffset)
	case exists && !known && exact:
		t.cursor.find(t.cursor.path, t.cursor.position,
			"producer %d had no open transaction at offset %d", entry.ProducerID, entry.LastOffset)
	case exists && exact && entry.FirstOffset != first:
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the transaction of producer %d begins at offset %d, not %d",
			entry.ProducerID, first, entry.FirstOffset)
	case exists && (entry.LastStable > t.lastStable(b.NextOffset()) ||
		exact && entry.LastStable != t.lastStable(b.NextOffset())):
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the last stable offset after the marker is %d, not %d", t.lastStable(b.NextOffset()),
			entry.LastStable)
	case !exists && aborted && ended.records:
		v.findUnlessOpen(b.NextOffset(), t.cursor.path, 0,
			"no entry for the aborted transaction of producer %d, offsets %d to %d",
			b.ProducerID(), first, b.BaseOffset())
	}
	if exists {
		return t.cursor.step()
	}
	return nil
}

// lastStable returns the last stable offset: the first offset of the first open transaction, or
// next if no transaction is open.
func (t *transactions) lastStable(next int64) int64 {
	for _, open := range t.open {
		next = min(next, open.first)
	}
	return next
}

// skipTo reports the entries below an offset as problems, because the log contains no marker for
// these entries.
func (t *transactions) skipTo(offset int64) error {
	for t.cursor.has && t.cursor.entry.LastOffset < offset {
		t.cursor.find(t.cursor.path, t.cursor.position, "no marker at offset %d",
			t.cursor.entry.LastOffset)
		if err := t.cursor.step(); err != nil {
			return err
		}
	}
	return nil
}

// end reports the remaining entries as problems.
func (t *transactions) end() error { return t.skipTo(1<<63 - 1) }
