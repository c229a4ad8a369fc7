package segmentlist

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// Handle is a segment with a reference count. Each segment list that contains the handle and each
// Slice of the segment is one reference. The last release closes the segment's files, and deletes
// them if the handle was doomed before.
//
// A reader may use an old list. So the files of a segment must not be deleted when the segment
// leaves the log's list, but only after the last list and the last Slice with the segment were
// released. With the reference count, retention, cleaning and reading need no synchronization with
// each other.
type Handle struct {
	*segment.Segment
	refs atomic.Int64
	// Doomed is set when the segment is removed from the log and its files are to be deleted.
	Doomed atomic.Bool
	logger *slog.Logger
	// Damaged is set when damage was found in the batches. Readers then verify the checksum of each
	// batch before they return the batch.
	Damaged atomic.Bool
	// verifiedEnd is the result of VerifiedEnd.
	verifiedEnd atomic.Int64
	// Sidecar is the state of the segment's key sidecar; nil until the state was read from the
	// directory.
	Sidecar atomic.Pointer[Sidecar]
	// Facts contains what segment reports have read from the segment's files.
	Facts Facts
	// Appended counts the records that this process has appended to the segment.
	Appended appendedCount

	// predecessor is the previous handle of the same segment (see Successor); nil for most handles.
	// This handle has a reference to its predecessor.
	predecessor *Handle
	// unread is a channel that is closed when only the successor still refers to this handle; nil
	// until the handle has a successor.
	unread atomic.Pointer[chan struct{}]
}

// NewHandle returns the first handle of a segment. The handle has no reference yet: the first list
// that contains the handle acquires one. Errors of the last release are logged to logger.
func NewHandle(s *segment.Segment, logger *slog.Logger) *Handle {
	h := &Handle{Segment: s, logger: logger}
	h.verifiedEnd.Store(math.MaxInt64)
	return h
}

// SetUnverified marks the batches as written by an earlier process, and as not verified by this
// process.
func (h *Handle) SetUnverified() { h.verifiedEnd.Store(0) }

// SetVerified marks the checksum of every batch as verified by this process.
func (h *Handle) SetVerified() { h.verifiedEnd.Store(math.MaxInt64) }

// VerifiedEnd returns the position in the data file below which this process has written the
// batches or has verified their checksums.
func (h *Handle) VerifiedEnd() int64 { return h.verifiedEnd.Load() }

// Verified marks the batches in a range of positions as verified by this process. A range that
// begins above VerifiedEnd has no effect: sequential reads raise VerifiedEnd, other reads are
// verified again.
func (h *Handle) Verified(from, end int64) {
	if known := h.verifiedEnd.Load(); from <= known && end > known {
		h.verifiedEnd.CompareAndSwap(known, end)
	}
}

// Acquire adds a reference. The caller already has a reference to h, or to a list that contains h.
// So refs is not 0, unless the segment was just created.
func (h *Handle) Acquire() { h.refs.Add(1) }

// Release removes a reference. Removing the last reference closes the files and may wait for the
// disk. So Release must not be called under the lock of a log, unless other references are known to
// remain.
func (h *Handle) Release() {
	left := h.refs.Add(-1)
	if left == 1 {
		if unread := h.unread.Load(); unread != nil {
			// unread is closed only once, because a handle that has a successor is never acquired
			// again.
			close(*unread)
		}
	}
	if left > 0 {
		return
	}
	if h.predecessor != nil {
		// The predecessor is a handle of the same segment. The last release of the predecessor,
		// which may happen now or later, closes the files.
		if h.Doomed.Load() {
			h.predecessor.Doomed.Store(true)
		}
		h.predecessor.Release()
		return
	}
	// h cannot be acquired again, because every caller of Acquire already has a reference.
	if h.Doomed.Load() {
		if err := h.Remove(); err != nil {
			h.logger.Warn("failed to delete segment files", "base", h.Base(), "error", err)
		}
	}
	if err := h.Close(); err != nil {
		h.logger.Warn("failed to close segment files", "base", h.Base(), "error", err)
	}
}

// Successor returns a second handle of the segment, which replaces h in the next list. The readers
// of h can then be distinguished from later readers. The caller holds Log.maintain, and the current
// list contains h.
func (h *Handle) Successor() *Handle {
	h.Acquire()
	unread := make(chan struct{})
	h.unread.Store(&unread)
	next := &Handle{Segment: h.Segment, logger: h.logger, predecessor: h}
	next.Damaged.Store(h.Damaged.Load())
	next.verifiedEnd.Store(h.verifiedEnd.Load())
	return next
}

// AwaitReaders waits, at most for the given time, until only h refers to its predecessor, and
// reports whether this is the case. The predecessor must no longer be in a current list.
func (h *Handle) AwaitReaders(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-*h.predecessor.unread.Load():
		return true
	case <-timer.C:
		return false
	}
}

// EachHeader visits the batch headers of a segment, starting at position, until visit returns
// false.
func (h *Handle) EachHeader(position int64,
	visit func(segment.Header) (goOn bool, err error)) error {
	for {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if goOn, err := visit(header); err != nil || !goOn {
			return err
		}
		position += int64(header.SizeBytes)
	}
}

// HeaderFrom returns the header of the first batch that ends at or above an offset. found is false
// if the segment contains no such batch.
func (h *Handle) HeaderFrom(offset int64) (header segment.Header, found bool, err error) {
	position, err := h.Position(offset)
	if err != nil {
		return header, false, err
	}
	header, err = h.HeaderAt(position)
	if errors.Is(err, io.EOF) {
		return header, false, nil
	}
	return header, err == nil, err
}

// Newest returns the largest timestamp in the segment (ms), or the file's modification time if no
// batch has a timestamp.
func (h *Handle) Newest() int64 {
	if ms, _ := h.MaxTimestamp(); ms >= 0 {
		return ms
	}
	return h.ModTime().UnixMilli()
}

// FirstWritten returns the time at which the segment's first batch was written. This is the
// timestamp of the batch, or the file's modification time if that is earlier or the batch has no
// timestamp. The modification time prevents a producer whose clock is ahead from delaying a pass
// beyond maxLag.
func (h *Handle) FirstWritten() time.Time {
	modified := h.ModTime()
	if ms, ok := h.FirstTimestamp(); ok && ms > 0 && ms < modified.UnixMilli() {
		return time.UnixMilli(ms)
	}
	return modified
}

// LastWritten returns the time at which the segment's youngest record was written, in Unix
// milliseconds. This is the largest timestamp, or the file's modification time if that is earlier
// or no batch has a timestamp. The modification time of a sealed file is the time of its last
// append, and a rewritten file keeps the time. Kafka uses only the timestamp, so a record from the
// year 2099 blocks its log until 2099 if minLag is set.
func (h *Handle) LastWritten() int64 { return min(h.Newest(), h.ModTime().UnixMilli()) }
