// Package timestamps finds records of a log by their timestamps (Search). It acquires no lock.
package timestamps

import (
	"errors"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// Result is the offset of a record and the record's timestamp (ms).
type Result struct {
	Timestamp   int64
	Offset      int64
	LeaderEpoch int32 // leader epoch of the record's batch
}

// Search finds records of a log by their timestamps.
type Search struct {
	List    *segmentlist.Current
	Offsets *offsets.Offsets
}

// First returns the first record below the offset limit whose timestamp is at least ms. ok is false
// if there is no such record (ListOffsets, KIP-79). It fails with ErrStorage or ErrClosed.
//
// Clients choose the timestamps, so timestamps do not necessarily ascend. The result is the first
// matching record in the order of offsets. The search therefore begins at the first segment, and
// skips each segment whose largest timestamp is below ms without reading it.
func (s Search) First(ms, limit int64) (result Result, ok bool, err error) {
	limit = min(limit, s.Offsets.LogEnd())
	list := s.List.Acquire()
	if list == nil {
		return result, false, segmentlist.ErrClosed
	}
	defer list.Release()
	// The log end is loaded again after the list, because a truncation lowers the log end before it
	// publishes its list.
	limit = min(limit, s.Offsets.LogEnd())
	logStart := s.Offsets.LogStart()
	for _, h := range list.Handles {
		if largest, _ := h.MaxTimestamp(); largest < ms || h.NextOffset() <= logStart {
			continue
		}
		if h.Base() >= limit {
			break
		}
		result, ok, err = firstSince(h, ms, logStart, limit)
		if err != nil {
			return result, false, fmt.Errorf("%w: look up timestamp %d: %w", segmentlist.ErrStorage, ms, err)
		}
		if ok {
			return result, true, nil
		}
	}
	return result, false, nil
}

// firstSince returns the segment's first record with an offset in [from, limit) whose timestamp is
// at least ms. A batch may contain no such record although its header has such a timestamp.
// Cleaning keeps the header's timestamp when it removes records (LogAppendTime), and records below
// from are ignored.
func firstSince(h *segmentlist.Handle, ms, from, limit int64) (result Result, ok bool,
	err error) {
	position, found, err := h.PositionForTimestamp(ms)
	if err != nil || !found {
		return result, false, err
	}
	for !ok {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) || err == nil && header.BaseOffset() >= limit {
			return result, false, nil
		}
		if err != nil {
			return result, false, err
		}
		position += int64(header.SizeBytes)
		if header.MaxTimestamp() < ms || header.Count() == 0 || header.LastOffset() < from {
			continue
		}
		result, ok, err = firstRecordSince(segmentlist.Batch{Handle: h, Header: header}, ms, from, limit)
		if err != nil {
			return result, false, err
		}
	}
	return result, ok, nil
}

// firstRecordSince returns the batch's first record with an offset in [from, limit) whose timestamp
// is at least ms. It stops reading at that record. The caller has checked that the batch's largest
// timestamp is at least ms.
func firstRecordSince(b segmentlist.Batch, ms, from, limit int64) (result Result, ok bool,
	err error) {
	for r, err := range b.Records() {
		switch {
		case errors.Is(err, compress.ErrTooLarge):
			result = byHeader(b, from)
			return result, result.Offset < limit, nil
		case err != nil:
			return result, false, err
		case r.Offset >= limit:
			return result, false, nil
		case r.Timestamp >= ms && r.Offset >= from:
			return Result{r.Timestamp, r.Offset, b.Header.LeaderEpoch()}, true, nil
		}
	}
	return result, false, nil
}

// byHeader returns the result for a batch that contains a record larger than
// segmentlist.DecompressedBytesMax: the batch's first offset at or above from, and the batch's
// largest timestamp. Such a batch exists if its topic allows larger messages, or if another broker
// wrote the batch. A consumer that begins at this offset may receive some records that are too old,
// but misses no record. Returning an error instead would make every lookup that ends in this batch
// fail.
func byHeader(b segmentlist.Batch, from int64) Result {
	return Result{b.Header.MaxTimestamp(), max(b.Header.BaseOffset(), from),
		b.Header.LeaderEpoch()}
}

// Largest returns the first record with the largest timestamp; ok is false if the log is empty
// (ListOffsets with -3, KIP-734). The largest timestamp of each segment is in memory, so Largest
// reads a segment only if its largest timestamp exceeds the largest timestamps of all earlier
// segments.
func (s Search) Largest() (result Result, ok bool, err error) {
	list := s.List.Acquire()
	if list == nil {
		return result, false, segmentlist.ErrClosed
	}
	defer list.Release()
	logStart := s.Offsets.LogStart()
	for _, h := range list.Handles {
		largest, _ := h.MaxTimestamp()
		if h.NextOffset() <= logStart || ok && largest <= result.Timestamp {
			continue
		}
		candidate, found, err := latest(h, largest, logStart)
		if err != nil {
			return result, false, fmt.Errorf("%w: look up the largest timestamp: %w", segmentlist.ErrStorage,
				err)
		}
		if found && (!ok || candidate.Timestamp > result.Timestamp) {
			result, ok = candidate, true
		}
	}
	return result, ok, nil
}

// latest returns the record with the largest timestamp among the segment's records at offset from
// or later. If several records have this timestamp, it returns the first one. largest is the
// largest timestamp in the segment.
func latest(h *segmentlist.Handle, largest, from int64) (result Result, ok bool,
	err error) {
	if h.Base() < from {
		// The record with the timestamp largest may be below from.
		return latestByHeaders(h, from)
	}
	position, found, err := h.PositionForTimestamp(largest)
	if err != nil || !found {
		return result, false, err
	}
	header, err := h.HeaderAt(position)
	switch {
	case err != nil:
		return result, false, err
	case header.Count() == 0:
		// Cleaning has removed all records of this batch, but its header has kept the timestamp.
		return latestByHeaders(h, from)
	}
	return latestRecord(segmentlist.Batch{Handle: h, Header: header}, from)
}

// latestByHeaders returns the same as latest, even if no record at offset from or later has the
// segment's largest timestamp. It reads the header of each batch from that offset on, and the
// records of at most two batches: the batch that begins below that offset, and the batch with the
// largest timestamp in its header.
func latestByHeaders(h *segmentlist.Handle, from int64) (result Result, ok bool,
	err error) {
	position, err := h.Position(from)
	if err != nil {
		return result, false, err
	}
	var best segmentlist.Batch
	for {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result, false, err
		}
		position += int64(header.SizeBytes)
		switch {
		case header.Count() == 0:
		case header.BaseOffset() < from:
			if result, ok, err = latestRecord(segmentlist.Batch{Handle: h, Header: header},
				from); err != nil {
				return result, false, err
			}
		case best.Handle == nil || header.MaxTimestamp() > best.Header.MaxTimestamp():
			best = segmentlist.Batch{Handle: h, Header: header}
		}
	}
	if best.Handle == nil || ok && best.Header.MaxTimestamp() <= result.Timestamp {
		return result, ok, nil
	}
	return latestRecord(best, from)
}

// latestRecord returns the record with the largest timestamp among the batch's records at offset
// from or later. If several records have this timestamp, it returns the first one.
func latestRecord(b segmentlist.Batch, from int64) (result Result, ok bool, err error) {
	for r, err := range b.Records() {
		switch {
		case errors.Is(err, compress.ErrTooLarge):
			return byHeader(b, from), true, nil
		case err != nil:
			return result, false, err
		case r.Offset >= from && (!ok || r.Timestamp > result.Timestamp):
			result, ok = Result{r.Timestamp, r.Offset, b.Header.LeaderEpoch()}, true
		}
		if ok && result.Timestamp >= b.Header.MaxTimestamp() {
			break // no later record of the batch can have a larger timestamp
		}
	}
	return result, ok, nil
}
