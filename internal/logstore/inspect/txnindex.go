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
	LastOffset       int64  `json:"lastOffset"` // of the marker
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

// transactions follows the transactions of a directory's segments, and holds their transaction
// indexes against them. What was open where the walk begins is not known, and what cleaning took is
// not there any more: so an entry may begin before all that was seen of its transaction, and one of
// which nothing was seen may be there or not.
//
// Nor does a transaction need one of which only batches without records are left, as cleaning
// leaves them for their producers: there is nothing that a reader would have to leave out. Kafka's
// cleaner keeps the entry (reference I22), ours forgets it.
type transactions struct {
	dir    string
	open   map[int64]openTxn // by producer
	cursor cursor[segment.AbortedTxn]
}

// openTxn is what was seen of a transaction that is open.
type openTxn struct {
	first   int64 // offset
	records bool  // of one batch at least
}

// begin goes on to a segment.
func (t *transactions) begin(v *verifier, f file) error {
	if t.open == nil || t.dir != f.dir {
		t.dir, t.open = f.dir, map[int64]openTxn{}
	}
	t.cursor = cursor[segment.AbortedTxn]{
		path: f.with(segment.TxnIndexExtension), find: v.find,
		parse: func(raw []byte) segment.AbortedTxn {
			entry, err := segment.ParseAbortedTxn(raw)
			if err != nil {
				entry.LastOffset = -1 // no batch is there: it is found
			}
			return entry
		},
		ascend: func(a, b segment.AbortedTxn) bool {
			return a.LastOffset < b.LastOffset &&
				a.LastStable <= b.LastStable
		},
	}
	if _, err := v.fsys.Stat(t.cursor.path); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was aborted, or an abort will find no entry
	}
	return t.cursor.open(v.fsys, segment.AbortedTxnBytes)
}

// close closes the index of the segment.
func (t *transactions) close() error {
	if t.cursor.file == nil {
		return nil
	}
	return t.cursor.file.Close()
}

// pass takes in a batch. Where nothing below it is missing, the entry of a transaction is known to
// the last byte.
func (t *transactions) pass(v *verifier, b batch) error {
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
		// what is wrong with the batch was told where batches are checked
		return t.skipTo(b.BaseOffset())
	}
	if err := t.skipTo(b.BaseOffset()); err != nil {
		return err
	}
	ended, seen := t.open[b.ProducerID()]
	first := ended.first
	delete(t.open, b.ProducerID())
	entry, told := t.cursor.entry, t.cursor.has && t.cursor.entry.LastOffset == b.BaseOffset()
	aborted := marker.Type == record.ControlAbort
	switch {
	case told && !aborted:
		t.cursor.find(t.cursor.path, t.cursor.position, "the marker at offset %d commits",
			entry.LastOffset)
	case told && entry.ProducerID != b.ProducerID():
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the marker at offset %d is of producer %d, not %d",
			entry.LastOffset, b.ProducerID(), entry.ProducerID)
	case told && seen && entry.FirstOffset > first:
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the transaction of producer %d begins at offset %d, not %d",
			entry.ProducerID, first, entry.FirstOffset)
	case told && !seen && exact:
		t.cursor.find(t.cursor.path, t.cursor.position,
			"producer %d had no transaction open at offset %d", entry.ProducerID, entry.LastOffset)
	case told && exact && entry.FirstOffset != first:
		t.cursor.find(t.cursor.path, t.cursor.position,
			"the transaction of producer %d begins at offset %d, not %d",
			entry.ProducerID, first, entry.FirstOffset)
	case told && (entry.LastStable > t.stable(b.NextOffset()) || exact && entry.LastStable != t.stable(b.NextOffset())):
		t.cursor.find(t.cursor.path, t.cursor.position,
			"everything was decided up to offset %d, not %d", t.stable(b.NextOffset()),
			entry.LastStable)
	case !told && aborted && ended.records:
		v.findUnlessOpen(b.NextOffset(), t.cursor.path, 0,
			"no entry for the transaction of producer %d, [%d, %d], which was aborted",
			b.ProducerID(), first, b.BaseOffset())
	}
	if told {
		return t.cursor.step()
	}
	return nil
}

// stable is where the first transaction that is open begins, or next.
func (t *transactions) stable(next int64) int64 {
	for _, open := range t.open {
		next = min(next, open.first)
	}
	return next
}

// skipTo tells of the entries below an offset: there was no marker for them.
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

// end tells of the entries that no batch has answered.
func (t *transactions) end() error { return t.skipTo(1<<63 - 1) }
