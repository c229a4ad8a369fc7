package segment

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// view is the state of a segment that readers see. A view is immutable. The segment stores the
// newest view in an atomic pointer.
//
// Invariant: the first size bytes of the data file are whole batches; next, the timestamps and the
// index entries describe exactly these batches.
//
// Proof that a read concurrent with an append sees only whole batches: a reader loads the view once
// and reads the data file only below its size. The only writer of the file (one at a time, by the
// mutex) writes at positions >= the size of the newest view, and stores the next view after the
// write has returned. So (1) bytes below the size that a reader loaded were written before that
// view was stored, and the atomic store and load order the write before the read; (2) no later
// append changes these bytes. Index entries are in the view itself, or in the index file below the
// view's number of written entries. (1) and (2) apply to the index file as well. Truncate is the
// exception: it stores the smaller view first and truncates the file afterwards, so a read with an
// older view may fail.
type view struct {
	base int64
	size int64 // size of the data in bytes
	next int64 // offset after the last offset, or base if there is no batch

	firstTimestamp     int64 // first batch's maximum timestamp; undefined without a batch
	maxTimestamp       int64 // -1 if there is no batch
	maxTimestampOffset int64 // last offset of the first batch with maxTimestamp, or base

	offsets entries[OffsetEntry]
	times   entries[TimeEntry]
	// aborted contains the entries of the transaction index. They cannot be derived from the
	// batches in this segment, because a transaction may begin in an earlier segment.
	aborted entries[AbortedTxn]
}

func emptyView(base int64) view {
	return view{base: base, next: base, maxTimestamp: -1, maxTimestampOffset: base}
}

// check returns an error unless a batch of size bytes can follow the batches in the view: the
// batch's offsets must be larger, and its offset and position must fit into the 31 bits of the
// indexes.
func (v *view) check(header record.Batch, size int) error {
	first, last := header.BaseOffset(), header.LastOffset()
	switch {
	case first < v.next || last < first:
		return fmt.Errorf("%w: offsets %d to %d at position %d, want at least %d",
			record.ErrCorrupt, first, last, v.size, v.next)
	case last-v.base > math.MaxInt32:
		return fmt.Errorf("%w: offset %d does not fit a segment with base offset %d",
			record.ErrCorrupt, last, v.base)
	case v.size+int64(size) > math.MaxInt32:
		return fmt.Errorf("%w: segment would grow beyond %d bytes", record.ErrCorrupt,
			math.MaxInt32)
	}
	return nil
}

// add adds a checked batch to the view, and an index entry if more than intervalBytes bytes were
// added since the last entry. The result depends only on the batches, so appending and rebuilding
// the indexes give the same entries.
func (v *view) add(header record.Batch, size, intervalBytes int) {
	last := header.LastOffset()
	timestamp := header.MaxTimestamp()
	if v.size == 0 {
		v.firstTimestamp = timestamp
	}
	if timestamp > v.maxTimestamp {
		v.maxTimestamp, v.maxTimestampOffset = timestamp, last
	}
	if v.sinceEntry() > int64(intervalBytes) {
		v.offsets = v.offsets.with(OffsetEntry{Relative: int32(last - v.base),
			Position: int32(v.size)})
		v.addTime()
	}
	v.size += int64(size)
	v.next = last + 1
}

// sinceEntry returns the number of bytes from the start of the last indexed batch to the end of the
// view. Without an index entry, it returns the size of the view.
func (v *view) sinceEntry() int64 { return v.size - int64(v.offsets.last.Position) }

// addTime adds a time index entry for the largest timestamp so far, unless the index already
// contains this timestamp.
func (v *view) addTime() {
	if v.maxTimestamp > v.lastTime() {
		v.times = v.times.with(TimeEntry{Timestamp: v.maxTimestamp,
			Relative: int32(v.maxTimestampOffset - v.base)})
	}
}

// unwritten returns the number of index entries that are only in memory.
func (v *view) unwritten() int {
	return len(v.offsets.tail) + len(v.times.tail) +
		len(v.aborted.tail)
}

func (v *view) lastTime() int64 {
	if v.times.count() == 0 {
		return -1
	}
	return v.times.last.Timestamp
}
