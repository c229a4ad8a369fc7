package logstore

import (
	"cmp"
	"slices"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

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

// active returns the active segment, the only one that accepts appends.
func (s *segmentList) active() *handle { return s.handles[len(s.handles)-1] }

// floor returns the index of the last segment whose base offset is at or below offset; 0 if there
// is no such segment.
func (s *segmentList) floor(offset int64) int { return floor(s.handles, offset) }

// floor does the same as the method for the handles of a list.
func floor(handles []*handle, offset int64) int {
	i, found := slices.BinarySearchFunc(handles, offset,
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

// findSegments returns the index of sources[0] in handles. ok is false if sources are not
// consecutive elements of handles.
func findSegments(handles []*handle, sources []*segment.Segment) (first int, ok bool) {
	if len(sources) == 0 {
		return 0, false
	}
	first = slices.IndexFunc(handles, func(h *handle) bool { return h.Segment == sources[0] })
	if first < 0 || first+len(sources) > len(handles) {
		return 0, false
	}
	for i, s := range sources {
		if handles[first+i].Segment != s {
			return 0, false
		}
	}
	return first, true
}

// segmentsOf returns the segments of handles.
func segmentsOf(handles []*handle) []*segment.Segment {
	all := make([]*segment.Segment, len(handles))
	for i, h := range handles {
		all[i] = h.Segment
	}
	return all
}

// currentList is the current list of a log. Its zero value is that of a closed log. A lock of the
// log guards its changes; it is read without a lock.
type currentList struct{ list atomic.Pointer[segmentList] }

// load returns the current list without a new reference, nil if the log is closed.
func (c *currentList) load() *segmentList { return c.list.Load() }

// acquire returns the log's current list with a new reference, nil if the log is closed.
//
// The list cannot be released completely before acquire has added its reference. refs is above 0
// from the creation of a list to its last release. It never rises from 0, because acquire only
// replaces n > 0 by n+1. If a list was replaced and completely released after acquire loaded its
// pointer, acquire finds 0 and loads the pointer again. The pointer was replaced before that
// release (publish), so the loop ends.
func (c *currentList) acquire() *segmentList {
	for {
		list := c.load()
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

// publish replaces the current list by a list of the given handles; nil closes the log. It returns
// the old list. The caller releases the old list after it has released the lock of the log, because
// the last release closes and deletes files.
func (c *currentList) publish(handles []*handle) (old *segmentList) {
	var list *segmentList
	if handles != nil {
		list = newSegmentList(handles)
	}
	// The new list has acquired its handles before the old list releases them. So the reference
	// count of a handle that is in both lists does not fall to 0.
	return c.list.Swap(list)
}

// current returns the handles of the current list, nil if the log is closed. The caller holds the
// lock of the log, so the list is not replaced meanwhile.
func (c *currentList) current() []*handle {
	if list := c.load(); list != nil {
		return list.handles
	}
	return nil
}
