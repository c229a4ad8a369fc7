package logstore

import (
	"cmp"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// handle is a segment and the number of those that use it: each list that holds it, each Slice of
// it. The last one to let go closes its files, and removes them if the segment was doomed before.
//
// A list in use may be old. So files must not go when a segment leaves the log's list, only when no
// list and no Slice that holds it is left: that is what counting is for, and why retention,
// cleaning and reading need no agreement between them.
type handle struct {
	*segment.Segment
	refs   atomic.Int64
	doomed atomic.Bool
	logger *slog.Logger
	// sidecar is what is known of the segment's key sidecar; see sidecarState.
	sidecar atomic.Pointer[sidecarState]

	// before is the handle of the same segment that this one came after (successor), which it holds a
	// reference of; nil for most.
	predecessor *handle
	// unread is closed when only its successor is left of a handle's users; nil until it has one.
	unread atomic.Pointer[chan struct{}]
}

// acquire adds a user. The caller holds a list that holds h, or h itself, so refs is not 0, but for
// a segment that was just made.
func (h *handle) acquire() { h.refs.Add(1) }

// release closes the files with the last user, so it may wait for the disk: never under Log.mu,
// unless others are known to be left.
func (h *handle) release() {
	left := h.refs.Add(-1)
	if left == 1 {
		if alone := h.unread.Load(); alone != nil {
			close(*alone) // once: with a successor nobody takes h any more who did not have it
		}
	}
	if left > 0 {
		return
	}
	if h.predecessor != nil {
		// The segment is its as well, and it is not used any more: it closes the files, now or when
		// its own last reader is gone.
		if h.doomed.Load() {
			h.predecessor.doomed.Store(true)
		}
		h.predecessor.release()
		return
	}
	// Nobody can take h any more: takers hold a list that holds h, or hold h itself.
	if h.doomed.Load() {
		if err := h.Remove(); err != nil {
			h.logger.Warn("remove a segment's files", "base", h.Base(), "error", err)
		}
	}
	if err := h.Close(); err != nil {
		h.logger.Warn("close a segment's files", "base", h.Base(), "error", err)
	}
}

// successor returns a second handle of the segment, to take the place of h in the next list. Who
// reads by h can then be told from those who come later. A list holds h, and Log.maintain is held.
func (h *handle) successor() *handle {
	h.acquire()
	alone := make(chan struct{})
	h.unread.Store(&alone)
	return &handle{Segment: h.Segment, logger: h.logger, predecessor: h}
}

// alone waits until nobody uses the handle before this one any more, which no list may hold by now;
// it tells whether that came about.
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

// segmentList is a log's segments at one moment, ascending by base; the last one is active. It is
// never empty and never changes. It is used between acquire and release.
type segmentList struct {
	handles []*handle
	refs    atomic.Int64
}

// newSegmentList returns a list with one reference, its maker's.
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
// Proof: refs is > 0 from the making of a list until its last release, and never rises from 0, for
// acquire only swaps n > 0 for n+1. A reader that loaded a pointer just before the list was
// replaced and fully released finds 0 and loads again; the new pointer was stored before the
// release (publish), so it makes progress.
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

// release lets go of the list, and with its last user of the handles. It may wait for the disk, as
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
// the caller releases once it has let go of Log.mu: the last release closes and removes files.
func (l *Log) publishLocked(handles []*handle) (old *segmentList) {
	var list *segmentList
	if handles != nil {
		list = newSegmentList(handles)
	}
	// The new list takes what both have before the old one lets go, so nothing that stays is ever
	// down to 0.
	return l.list.Swap(list)
}

// currentLocked returns the handles of the current list, nil if the log is closed. Log.mu is held,
// so nobody replaces it.
func (l *Log) currentLocked() []*handle {
	if list := l.list.Load(); list != nil {
		return list.handles
	}
	return nil
}

// active is the only segment that is appended to.
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

// sizeBytes is the size of the data files, the active one's too.
func (s *segmentList) sizeBytes() int64 {
	var size int64
	for _, h := range s.handles {
		size += h.SizeBytes()
	}
	return size
}
