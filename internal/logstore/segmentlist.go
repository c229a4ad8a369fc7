package logstore

import (
	"cmp"
	"log/slog"
	"slices"
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

// segmentList is the list of a log's segments at one moment, in ascending order of their base
// offsets. The last one is the active segment. A list never changes and is never empty. It is used
// between acquire and release.
type segmentList struct {
	handles []*handle
	refs    atomic.Int64
}

// newSegmentList returns a list with one reference, which belongs to the caller.
func newSegmentList(handles []*handle) *segmentList {
	for _, h := range handles {
		h.acquire()
	}
	list := &segmentList{handles: handles}
	list.refs.Store(1)
	return list
}

// acquire returns the log's current list with a new reference, nil if the log is closed.
//
// The list cannot be released completely before acquire has added its reference. refs is above 0
// from the creation of a list to its last release. It never rises from 0, because acquire only
// replaces n > 0 by n+1. If a list was replaced and completely released after acquire loaded its
// pointer, acquire finds 0 and loads the pointer again. The pointer was replaced before that
// release (publishLocked), so the loop ends.
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

// release removes a reference to the list. Removing the last reference releases the handles of the
// list, so it may wait for the disk like handle.release.
func (s *segmentList) release() {
	if s.refs.Add(-1) > 0 {
		return
	}
	for _, h := range s.handles {
		h.release()
	}
}

// publishLocked replaces the log's list by a list of the given handles; nil closes the log. It
// returns the old list. The caller releases the old list after it has released Log.mu, because the
// last release closes and deletes files.
func (l *Log) publishLocked(handles []*handle) (old *segmentList) {
	var list *segmentList
	if handles != nil {
		list = newSegmentList(handles)
	}
	// The new list has acquired its handles before the old list releases them. So the reference
	// count of a handle that is in both lists does not fall to 0.
	return l.list.Swap(list)
}

// currentLocked returns the handles of the current list, nil if the log is closed. The caller holds
// Log.mu, so the list is not replaced meanwhile.
func (l *Log) currentLocked() []*handle {
	if list := l.list.Load(); list != nil {
		return list.handles
	}
	return nil
}

// active returns the active segment, the only one that accepts appends.
func (s *segmentList) active() *handle { return s.handles[len(s.handles)-1] }

// floor returns the index of the last segment whose base offset is at or below offset; 0 if there
// is no such segment.
func (s *segmentList) floor(offset int64) int {
	i, found := slices.BinarySearchFunc(s.handles, offset,
		func(h *handle, o int64) int { return cmp.Compare(h.Base(), o) })
	if found {
		return i
	}
	return max(i-1, 0)
}

// sizeBytes returns the total size of the data files, including that of the active segment.
func (s *segmentList) sizeBytes() int64 {
	var size int64
	for _, h := range s.handles {
		size += h.SizeBytes()
	}
	return size
}
