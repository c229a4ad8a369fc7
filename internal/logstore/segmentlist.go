package logstore

import (
	"cmp"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// handle is a segment with a reference count: each list that holds it and each Slice of it is a
// reference. The last release closes its files, and deletes them if the segment was doomed before.
// A reader may use an old list. So the files of a segment must not be deleted when the segment
// leaves the log's list, but only when no list and no Slice holds the segment any more. Because of
// the count, retention, cleaning and reading need no synchronization with each other.
type handle struct {
	*segment.Segment
	refs atomic.Int64
	// doomed is set before the segment leaves the log for good.
	doomed atomic.Bool
	logger *slog.Logger
	// sidecar is the state of the segment's key sidecar; nil until it was read from the directory.
	sidecar atomic.Pointer[sidecarState]

	// predecessor is the previous handle of the same segment (successor), to which this one holds a
	// reference; nil for most handles.
	predecessor *handle
	// unread is closed when only the successor refers to this handle; nil until the handle has a
	// successor.
	unread atomic.Pointer[chan struct{}]
}

// acquire adds a reference. The caller holds a list that holds h, or h itself, so refs is not 0,
// except for a segment that was just created.
func (h *handle) acquire() { h.refs.Add(1) }

// release closes the files with the last reference, so it may wait for the disk: never under
// Log.mu, unless other references are known to be left.
func (h *handle) release() {
	left := h.refs.Add(-1)
	if left == 1 {
		if unread := h.unread.Load(); unread != nil {
			close(*unread) // closed only once: a handle with a successor gets no new users
		}
	}
	if left > 0 {
		return
	}
	if h.predecessor != nil {
		// The predecessor holds the segment too, and its last release closes the files, now or
		// later.
		if h.doomed.Load() {
			h.predecessor.doomed.Store(true)
		}
		h.predecessor.release()
		return
	}
	// h cannot be acquired again: callers of acquire hold a list that holds h, or h itself.
	if h.doomed.Load() {
		if err := h.Remove(); err != nil {
			h.logger.Warn("failed to delete segment files", "base", h.Base(), "error", err)
		}
	}
	if err := h.Close(); err != nil {
		h.logger.Warn("failed to close segment files", "base", h.Base(), "error", err)
	}
}

// successor returns a second handle of the segment, which replaces h in the next list. It separates
// the readers that use h from later ones. A list holds h, and Log.maintain is held.
func (h *handle) successor() *handle {
	h.acquire()
	unread := make(chan struct{})
	h.unread.Store(&unread)
	return &handle{Segment: h.Segment, logger: h.logger, predecessor: h}
}

// awaitReaders waits until only h refers to the predecessor of h, and reports whether that happened
// in time. No list may hold the predecessor any more.
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

// segmentList is the segments of a log at one moment, ascending by base; the last one is active. It
// is never empty and never changes. It is used between acquire and release.
type segmentList struct {
	handles []*handle
	refs    atomic.Int64
}

// newSegmentList returns a list with one reference, which its creator holds.
func newSegmentList(handles []*handle) *segmentList {
	for _, h := range handles {
		h.acquire()
	}
	list := &segmentList{handles: handles}
	list.refs.Store(1)
	return list
}

// acquire returns the log's current list, nil if the log is closed.
//
// Proof: refs is > 0 from the creation of a list until its last release, and never rises from 0,
// because acquire only swaps n > 0 for n+1. A reader that loaded a pointer just before the list was
// replaced and fully released finds 0 and loads again; the new pointer was stored before the
// release (publishLocked), so the reader makes progress.
func (l *Log) acquire() *segmentList {
	for {
		list := l.list.Load()
		if list == nil {
			return nil
		}
		for {
			n := list.refs.Load()
			if n == 0 {
				break
			}
			if list.refs.CompareAndSwap(n, n+1) {
				return list
			}
		}
	}
}

// release releases the list, and with the last reference its handles. It may wait for the disk, as
// handle.release does.
func (s *segmentList) release() {
	if s.refs.Add(-1) > 0 {
		return
	}
	for _, h := range s.handles {
		h.release()
	}
}

// publishLocked makes handles the log's list; nil closes the log. It returns the old list, which
// the caller releases after Log.mu: the last release closes and deletes files.
func (l *Log) publishLocked(handles []*handle) (old *segmentList) {
	var list *segmentList
	if handles != nil {
		list = newSegmentList(handles)
	}
	// The new list acquires the handles of both before the old one releases them, so no handle that
	// stays gets down to 0.
	return l.list.Swap(list)
}

// currentLocked returns the handles of the current list, nil if the log is closed. Log.mu is held,
// so the list is not replaced.
func (l *Log) currentLocked() []*handle {
	if list := l.list.Load(); list != nil {
		return list.handles
	}
	return nil
}

// active returns the only segment that takes appends.
func (s *segmentList) active() *handle { return s.handles[len(s.handles)-1] }

// floor returns the index of the last segment whose base is <= offset; 0 if there is none.
func (s *segmentList) floor(offset int64) int {
	i, found := slices.BinarySearchFunc(s.handles, offset,
		func(h *handle, o int64) int { return cmp.Compare(h.Base(), o) })
	if found {
		return i
	}
	return max(i-1, 0)
}

// sizeBytes returns the size of the data files, including the active one.
func (s *segmentList) sizeBytes() int64 {
	var size int64
	for _, h := range s.handles {
		size += h.SizeBytes()
	}
	return size
}
