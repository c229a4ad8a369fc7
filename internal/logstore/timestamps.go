package logstore

import (
	"errors"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/record"
)

// TimestampOffset is an offset and the timestamp (ms) of its record.
type TimestampOffset struct {
	Timestamp   int64
	Offset      int64
	LeaderEpoch int32
}

// OffsetForTimestamp returns the first record, below limit, whose timestamp is >= ms; ok is false if there is none.
func (l *Log) OffsetForTimestamp(ms, limit int64) (at TimestampOffset, ok bool, err error) {
	list := l.acquire()
	if list == nil {
		return at, false, ErrClosed
	}
	defer list.release()
	logStart := l.LogStart()
	limit = min(limit, l.logEnd.Load())
	for _, h := range list.handles {
		if largest, _ := h.MaxTimestamp(); largest < ms || h.NextOffset() <= logStart {
			continue
		}
		if h.Base() >= limit {
			break
		}
		at, ok, err = h.firstSince(ms, logStart, limit)
		if err != nil {
			return at, false, fmt.Errorf("%w: look up timestamp %d: %w", ErrStorage, ms, err)
		}
		if ok {
			return at, true, nil
		}
	}
	return at, false, nil
}

// firstSince returns the segment's first record in [from, limit) whose timestamp is >= ms.
func (h *handle) firstSince(ms, from, limit int64) (at TimestampOffset, ok bool, err error) {
	position, found, err := h.PositionForTimestamp(ms)
	if err != nil || !found {
		return at, false, err
	}
	for !ok {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) || err == nil && header.BaseOffset() >= limit {
			return at, false, nil
		}
		if err != nil {
			return at, false, err
		}
		position += int64(header.SizeBytes)
		if header.MaxTimestamp() < ms || header.Count() == 0 || header.LastOffset() < from {
			continue
		}
		batch, err := readBatch(h, header)
		if err != nil {
			return at, false, err
		}
		err = batch.Records(decompressedBytesMax, func(r *record.Record) error {
			if !ok && r.Timestamp >= ms && r.Offset >= from && r.Offset < limit {
				at, ok = TimestampOffset{r.Timestamp, r.Offset, batch.LeaderEpoch()}, true
			}
			return nil
		})
		if err != nil {
			return at, false, err
		}
	}
	return at, ok, nil
}

// MaxTimestamp returns the record with the largest timestamp, the first of them; ok is false if the log is empty.
func (l *Log) MaxTimestamp() (at TimestampOffset, ok bool, err error) {
	list := l.acquire()
	if list == nil {
		return at, false, ErrClosed
	}
	defer list.release()
	logStart := l.LogStart()
	var best place
	for _, h := range list.handles {
		largest, _ := h.MaxTimestamp()
		if h.NextOffset() <= logStart || best.handle != nil && largest <= best.header.MaxTimestamp() {
			continue
		}
		candidate, found, err := h.latestBatch(largest, logStart)
		if err != nil {
			return at, false, fmt.Errorf("%w: look up the largest timestamp: %w", ErrStorage, err)
		}
		if found && (best.handle == nil || candidate.header.MaxTimestamp() > best.header.MaxTimestamp()) {
			best = candidate
		}
	}
	if best.handle == nil {
		return at, false, nil
	}
	return best.latestRecord(logStart)
}

// latestBatch returns the batch with records that has the largest timestamp, among those that reach to offset from.
func (h *handle) latestBatch(largest, from int64) (best place, found bool, err error) {
	if h.Base() >= from {
		position, ok, err := h.PositionForTimestamp(largest)
		if err != nil || !ok {
			return best, false, err
		}
		if header, err := h.HeaderAt(position); err != nil || header.Count() > 0 {
			return place{h, header}, true, err
		}
	}
	// The segment's largest timestamp may be that of an empty batch or of one below the log start: look at every header.
	position, err := h.Position(from)
	for err == nil {
		header, headerErr := h.HeaderAt(position)
		if errors.Is(headerErr, io.EOF) {
			return best, found, nil
		}
		if err = headerErr; err == nil {
			if header.Count() > 0 && (!found || header.MaxTimestamp() > best.header.MaxTimestamp()) {
				best, found = place{h, header}, true
			}
			position += int64(header.SizeBytes)
		}
	}
	return best, false, err
}

// latestRecord returns the batch's first record, from offset from on, with the largest timestamp.
func (p place) latestRecord(from int64) (at TimestampOffset, ok bool, err error) {
	batch, err := readBatch(p.handle, p.header)
	if err != nil {
		return at, false, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	err = batch.Records(decompressedBytesMax, func(r *record.Record) error {
		if r.Offset >= from && (!ok || r.Timestamp > at.Timestamp) {
			at, ok = TimestampOffset{r.Timestamp, r.Offset, batch.LeaderEpoch()}, true
		}
		return nil
	})
	if err != nil {
		return at, false, fmt.Errorf("%w: read the records at offset %d: %w", ErrStorage, batch.BaseOffset(), err)
	}
	return at, ok, nil
}
