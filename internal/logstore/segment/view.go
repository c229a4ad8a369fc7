package segment

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// view is what readers see of a segment at one moment. It is immutable, and the segment has the
// newest behind an atomic pointer.
//
// Invariant: the first size bytes of the data file are whole batches; next, the timestamps and the
// index entries tell of exactly these.
//
// Proof that a read beside an append sees whole batches only. A reader loads the view once and
// reads the data file below its size only. The only writer of the file (one at a time, by the
// mutex) writes at offsets >= size of the newest view, and stores the next view after that write
// has returned. So (1) bytes below the size a reader loaded were written before that view was
// stored, and the atomic store and load order the write before the read; (2) no later append
// touches them. Index entries live in the view itself or in the file at indexes below view.written,
// for which the same holds. Truncate is the exception, and says so: it stores the smaller view
// first and cuts the file then; a reader with an older view may run into the cut.
type view struct {
	base int64
	size int64 // bytes
	next int64 // last offset + 1; base if there is no batch

	firstTimestamp     int64 // max timestamp of the first batch; meaningless when there is none
	maxTimestamp       int64 // -1 if there is none
	maxTimestampOffset int64 // last offset of the first batch that has it; base if there is none

	offsets entries[OffsetEntry]
	times   entries[TimeEntry]
	// aborted are told by the log, which knows where transactions begin; add does not make them.
	aborted entries[AbortedTxn]
}

func emptyView(base int64) view {
	return view{base: base, next: base, maxTimestamp: -1, maxTimestampOffset: base}
}

// check tells whether a batch of size bytes may follow: offsets ascend and everything fits the 31
// bits of the indexes.
func (v *view) check(header record.Batch, size int) error {
	first, last := header.BaseOffset(), header.LastOffset()
	switch {
	case first < v.next || last < first:
		return fmt.Errorf("%w: offsets %d to %d at position %d, where %d or more is due",
			record.ErrCorrupt, first, last, v.size, v.next)
	case last-v.base > math.MaxInt32:
		return fmt.Errorf("%w: offset %d does not fit a segment that begins at %d",
			record.ErrCorrupt, last, v.base)
	case v.size+int64(size) > math.MaxInt32:
		return fmt.Errorf("%w: segment would grow beyond %d bytes", record.ErrCorrupt,
			math.MaxInt32)
	}
	return nil
}

// add counts a batch that was checked, and indexes it if it is due: a pure function of the batches
// so far, so that appending and making the indexes anew give the same entries.
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

// sinceEntry returns how many bytes lie behind the start of the last indexed batch; the first batch
// counts as indexed.
func (v *view) sinceEntry() int64 { return v.size - int64(v.offsets.last.Position) }

// addTime writes down the largest timestamp so far, if the time index does not have it.
func (v *view) addTime() {
	if v.maxTimestamp > v.lastTime() {
		v.times = v.times.with(TimeEntry{Timestamp: v.maxTimestamp,
			Relative: int32(v.maxTimestampOffset - v.base)})
	}
}

// unwritten is how many index entries are in memory only.
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
