package segment

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// view is the state of a segment that readers see. A view is immutable, and the segment has the
// newest view behind an atomic pointer.
//
// Invariant: the first size bytes of the data file are whole batches; next, the timestamps and the
// index entries describe exactly these.
//
// Proof that a read concurrent with an append sees only whole batches: a reader loads the view once
// and reads the data file only below its size. The only writer of the file (one at a time, by the
// mutex) writes at positions >= the size of the newest view, and stores the next view after the
// write has returned. So (1) bytes below the size that a reader loaded were written before that
// view was stored, and the atomic store and load order the write before the read; (2) no later
// append changes them. Index entries are in the view itself or in the file at indexes below its
// written count, for which the same holds. Truncate is the exception: it stores the smaller view
// first and truncates the file afterwards, so a read with an older view may fail.
type view struct {
	base int64
	size int64 // bytes
	next int64 // last offset + 1; base if there is no batch

	firstTimestamp     int64 // maximum timestamp of the first batch; undefined if there is none
	maxTimestamp       int64 // -1 if there is no batch
	maxTimestampOffset int64 // last offset of the first batch with maxTimestamp; base if none

	offsets entries[OffsetEntry]
	times   entries[TimeEntry]
	// aborted are the entries that AddAborted has added. The batches do not determine them: only
	// the log knows where transactions begin.
	aborted entries[AbortedTxn]
}

func emptyView(base int64) view {
	return view{base: base, next: base, maxTimestamp: -1, maxTimestampOffset: base}
}

// check returns an error unless a batch of size bytes can follow: offsets ascend, and offset and
// position fit the 31 bits of the indexes.
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

// add adds a checked batch, with an index entry if the interval has passed. It depends only on the
// batches so far, so appending and rebuilding the indexes give the same entries.
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

// sinceEntry returns the number of bytes from the start of the last indexed batch on. The first
// batch is treated as indexed.
func (v *view) sinceEntry() int64 { return v.size - int64(v.offsets.last.Position) }

// addTime adds an entry for the largest timestamp so far, unless the time index has it.
func (v *view) addTime() {
	if v.maxTimestamp > v.lastTime() {
		v.times = v.times.with(TimeEntry{Timestamp: v.maxTimestamp,
			Relative: int32(v.maxTimestampOffset - v.base)})
	}
}

// unwritten is the number of index entries that are only in memory.
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
