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
	l := txnLine{File: path, ProducerID: entry.ProducerID, FirstOffset: entry.FirstOffset, LastOffset: entry.LastOffset, LastStableOffset: entry.LastStable}
	if err != nil {
		l.Problem = err.Error()
	}
	return l
}

func (l txnLine) text() string {
	if l.Problem != "" {
		return fmt.Sprintf("aborted problem=%q", l.Problem)
	}
	return fmt.Sprintf("aborted producer=%d offsets=%d-%d lastStable=%d", l.ProducerID, l.FirstOffset, l.LastOffset, l.LastStableOffset)
}

// transactions follows the transactions of a directory's segments, and holds their transaction indexes against them. What was open
// where the walk begins is not known, and what cleaning took is not there any more: so an entry may begin before all that was seen of
// its transaction, and one of which nothing was seen may be there or not.
type transactions struct {
	dir    string
	open   map[int64]int64 // producer -> first offset seen of its open transaction
	cursor cursor[segment.AbortedTxn]
}

// begin goes on to a segment.
func (t *transactions) begin(v *verifier, f file) error {
	if t.open == nil || t.dir != f.dir {
		t.dir, t.open = f.dir, map[int64]int64{}
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
		ascend: func(a, b segment.AbortedTxn) bool { return a.LastOffset < b.LastOffset && a.LastStable <= b.LastStable },
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

// pass takes in a batch. exact: nothing below it is missing, so that the entry of a transaction is known to the last byte.
func (t *transactions) pass(b batch, exact bool) error {
	if b.tooLarge || b.ProducerID() < 0 {
		return t.skipTo(b.BaseOffset())
	}
	if b.Transactional() && !b.Control() {
		if _, open := t.open[b.ProducerID()]; !open {
			t.open[b.ProducerID()] = b.BaseOffset()
		}
	}
	marker, ends, err := b.Marker()
	if err != nil || !ends {
		return t.skipTo(b.BaseOffset()) // what is wrong with the batch was told where batches are checked
	}
	if err := t.skipTo(b.BaseOffset()); err != nil {
		return err
	}
	first, seen := t.open[b.ProducerID()]
	delete(t.open, b.ProducerID())
	entry, told := t.cursor.entry, t.cursor.has && t.cursor.entry.LastOffset == b.BaseOffset()
	aborted := marker.Type == record.ControlAbort
	switch {
	case told && !aborted:
		t.cursor.find(t.cursor.path, t.cursor.position, "the marker at offset %d commits", entry.LastOffset)
	case told && entry.ProducerID != b.ProducerID():
		t.cursor.find(t.cursor.path, t.cursor.position, "the marker at offset %d is of producer %d, not %d",
			entry.LastOffset, b.ProducerID(), entry.ProducerID)
	case told && seen && entry.FirstOffset > first:
		t.cursor.find(t.cursor.path, t.cursor.position, "the transaction of producer %d begins at offset %d, not %d",
			entry.ProducerID, first, entry.FirstOffset)
	case told && !seen && exact:
		t.cursor.find(t.cursor.path, t.cursor.position, "producer %d had no transaction open at offset %d", entry.ProducerID, entry.LastOffset)
	case told && exact && entry.FirstOffset != first:
		t.cursor.find(t.cursor.path, t.cursor.position, "the transaction of producer %d begins at offset %d, not %d",
			entry.ProducerID, first, entry.FirstOffset)
	case told && (entry.LastStable > t.stable(b.NextOffset()) || exact && entry.LastStable != t.stable(b.NextOffset())):
		t.cursor.find(t.cursor.path, t.cursor.position, "everything was decided up to offset %d, not %d", t.stable(b.NextOffset()), entry.LastStable)
	case !told && aborted && seen:
		t.cursor.find(t.cursor.path, 0, "no entry for the transaction of producer %d, [%d, %d], which was aborted",
			b.ProducerID(), first, b.BaseOffset())
	}
	if told {
		return t.cursor.step()
	}
	return nil
}

// stable is where the first transaction that is open begins, or next.
func (t *transactions) stable(next int64) int64 {
	for _, first := range t.open {
		next = min(next, first)
	}
	return next
}

// skipTo tells of the entries below an offset: there was no marker for them.
func (t *transactions) skipTo(offset int64) error {
	for t.cursor.has && t.cursor.entry.LastOffset < offset {
		t.cursor.find(t.cursor.path, t.cursor.position, "no marker at offset %d", t.cursor.entry.LastOffset)
		if err := t.cursor.step(); err != nil {
			return err
		}
	}
	return nil
}

// end tells of the entries that no batch has answered.
func (t *transactions) end() error { return t.skipTo(1<<63 - 1) }
