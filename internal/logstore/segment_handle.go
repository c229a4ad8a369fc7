package logstore

import (
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// handle is a segment with a reference count. Each segment list that contains the handle and each
// Slice of the segment is one reference. The last release closes the segment's files, and deletes
// them if the handle was doomed before.
//
// A reader may use an old list. So the files of a segment must not be deleted when the segment
// leaves the log's list, but only after the last list and the last Slice of it were released. With
// the reference count, retention, cleaning and reading need no synchronization with each other.
type handle struct {
	*segment.Segment
	refs atomic.Int64
	// doomed is set when the segment is removed from the log and its files are to be deleted.
	doomed atomic.Bool
	logger *slog.Logger
	// sidecar is the state of the segment's key sidecar; nil until that state was read from the
	// directory.
	sidecar atomic.Pointer[sidecarState]
	// facts are what segment reports have read from the segment's files.
	facts segmentFacts
	// appended counts what this process has appended to the segment.
	appended appendedCount

	// predecessor is the previous handle of the same segment (see successor); nil for most handles.
	// This handle has a reference to its predecessor.
	predecessor *handle
	// unread is a channel that is closed when only the successor still refers to this handle; nil
	// until the handle has a successor.
	unread atomic.Pointer[chan struct{}]
}

// newHandle returns the first handle of a segment. The handle has no reference yet: the first list
// that contains the handle acquires one. The logger gets the errors of the last release.
func newHandle(s *segment.Segment, logger *slog.Logger) *handle {
	return &handle{Segment: s, logger: logger}
}

// acquire adds a reference. The caller already has a reference to a list that contains h, or to h
// itself. So refs is not 0, unless the segment was just created.
func (h *handle) acquire() { h.refs.Add(1) }

// release removes a reference. Removing the last reference closes the files and may wait for the
// disk. So release must not be called under Log.mu, unless other references are known to remain.
func (h *handle) release() {
	left := h.refs.Add(-1)
	if left == 1 {
		if unread := h.unread.Load(); unread != nil {
			// closed only once, because nobody acquires a handle that has a successor
			close(*unread)
		}
	}
	if left > 0 {
		return
	}
	if h.predecessor != nil {
		// The predecessor is a handle of the same segment. Its last release, which may happen now
		// or later, closes the files.
		if h.doomed.Load() {
			h.predecessor.doomed.Store(true)
		}
		h.predecessor.release()
		return
	}
	// h cannot be acquired again, because every caller of acquire has a reference already.
	if h.doomed.Load() {
		if err := h.Remove(); err != nil {
			h.logger.Warn("failed to delete segment files", "base", h.Base(), "error", err)
		}
	}
	if err := h.Close(); err != nil {
		h.logger.Warn("failed to close segment files", "base", h.Base(), "error", err)
	}
}

// successor returns a second handle of the segment, which replaces h in the next list, so that the
// readers of h can be distinguished from later readers. The caller holds Log.maintain, and the
// current list contains h.
func (h *handle) successor() *handle {
	h.acquire()
	unread := make(chan struct{})
	h.unread.Store(&unread)
	return &handle{Segment: h.Segment, logger: h.logger, predecessor: h}
}

// awaitReaders waits until only h refers to its predecessor, at most for the given time, and
// reports whether that happened. The predecessor is in no current list any longer.
func (h *handle) awaitReaders(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-*h.predecessor.unread.Load():
		return true
	case <-timer.C:
		return false
	}
}

// eachHeader visits the batch headers of a segment from a position on, until visit returns false.
func (h *handle) eachHeader(position int64,
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

// headerFrom returns the header of the first batch that ends at or above an offset. found is false
// if the segment contains no such batch.
func (h *handle) headerFrom(offset int64) (header segment.Header, found bool, err error) {
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

// newest returns the largest timestamp of the segment (ms), or the file's modification time if no
// batch has a timestamp.
func (h *handle) newest() int64 {
	if ms, _ := h.MaxTimestamp(); ms >= 0 {
		return ms
	}
	return h.ModTime().UnixMilli()
}

// firstWritten returns the time at which the segment's first batch was written. This is the
// timestamp of the batch, or the file's modification time if that is earlier or the batch has no
// timestamp. The modification time prevents a producer whose clock is ahead from delaying a pass
// beyond maxLag.
func (h *handle) firstWritten() time.Time {
	modified := h.ModTime()
	if ms, ok := h.FirstTimestamp(); ok && ms > 0 && ms < modified.UnixMilli() {
		return time.UnixMilli(ms)
	}
	return modified
}

// lastWritten returns the time at which the segment's youngest record was written, in Unix
// milliseconds. This is the largest timestamp, or the file's modification time if that is earlier
// or no batch has a timestamp. The modification time of a sealed file is that of its last append,
// and a rewritten file keeps it. Kafka uses only the timestamp. A record from the year 2099 would
// then block its log until 2099 if minLag is set.
func (h *handle) lastWritten() int64 { return min(h.newest(), h.ModTime().UnixMilli()) }
