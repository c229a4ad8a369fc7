package segmentlist

import (
	"cmp"
	"slices"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// List is the list of a log's segments at one moment, in ascending order of their base offsets. The
// last segment is the active one. A list never changes and is never empty. It is used between
// Acquire and Release.
type List struct {
	Handles []*Handle
	refs    atomic.Int64
}

// New returns a list with one reference, which belongs to the caller.
func New(handles []*Handle) *List {
	for _, h := range handles {
		h.Acquire()
	}
	list := &List{Handles: handles}
	list.refs.Store(1)
	return list
}

// Release removes a reference to the list. Removing the last reference releases the handles in the
// list, so it may wait for the disk, like Handle.Release.
func (s *List) Release() {
	if s.refs.Add(-1) > 0 {
		return
	}
	for _, h := range s.Handles {
		h.Release()
	}
}

// Active returns the active segment, the only one that accepts appends.
func (s *List) Active() *Handle { return s.Handles[len(s.Handles)-1] }

// Floor returns the index of the last segment whose base offset is at or below offset; 0 if there
// is no such segment.
func (s *List) Floor(offset int64) int { return Floor(s.Handles, offset) }

// Floor is like List.Floor, but for the handles of a list.
func Floor(handles []*Handle, offset int64) int {
	i, found := slices.BinarySearchFunc(handles, offset,
		func(h *Handle, o int64) int { return cmp.Compare(h.Base(), o) })
	if found {
		return i
	}
	return max(i-1, 0)
}

// SizeBytes returns the total size of the data files, including the active segment's data file.
func (s *List) SizeBytes() int64 {
	var size int64
	for _, h := range s.Handles {
		size += h.SizeBytes()
	}
	return size
}

// Find returns the index of sources[0] in handles. ok is false if sources are not
// consecutive elements of handles.
func Find(handles []*Handle, sources []*segment.Segment) (first int, ok bool) {
	if len(sources) == 0 {
		return 0, false
	}
	first = slices.IndexFunc(handles, func(h *Handle) bool { return h.Segment == sources[0] })
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

// Segments returns the segments of the given handles.
func Segments(handles []*Handle) []*segment.Segment {
	all := make([]*segment.Segment, len(handles))
	for i, h := range handles {
		all[i] = h.Segment
	}
	return all
}

// Current is the current list of a log. Its zero value represents a closed log. A lock of the log
// guards its changes; it is read without a lock.
type Current struct{ list atomic.Pointer[List] }

// Load returns the current list without a new reference, or nil if the log is closed.
func (c *Current) Load() *List { return c.list.Load() }

// Acquire returns the log's current list with a new reference, or nil if the log is closed.
//
// The list cannot be released completely before Acquire has added its reference. refs is above 0
// from the creation of a list to its last release. It never rises from 0, because Acquire only
// replaces n > 0 by n+1. If a list was replaced and completely released after Acquire loaded its
// pointer, Acquire finds 0 and loads the pointer again. The pointer was replaced before that
// release (Publish), so the loop ends.
func (c *Current) Acquire() *List {
	for {
		list := c.Load()
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

// Publish replaces the current list by a list of the given handles; nil closes the log. It returns
// the old list. The caller releases the old list after it has released the lock of the log, because
// the last release closes and deletes files.
func (c *Current) Publish(handles []*Handle) (old *List) {
	var list *List
	if handles != nil {
		list = New(handles)
	}
	// The new list has acquired its handles before the old list releases its handles. So the
	// reference count of a handle that is in both lists does not fall to 0.
	return c.list.Swap(list)
}

// Handles returns the handles in the current list, or nil if the log is closed. The caller holds
// the lock of the log, so the list is not replaced meanwhile.
func (c *Current) Handles() []*Handle {
	if list := c.Load(); list != nil {
		return list.Handles
	}
	return nil
}
