package repair

import (
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
)

// Snapshot is a damaged producer snapshot, with the functions and values of its log that a repair
// uses.
type Snapshot struct {
	Offset int64 // offset in the name of the file
	LogEnd int64 // read before List is acquired
	List   *segmentlist.Current
	Files  *snapshots.Files
	// Idle returns the known producers whose last batch is below an offset.
	Idle func(below int64) producer.State
	// Unchanged reports whether the log was neither truncated nor stopped meanwhile. The caller holds
	// Truncating and Maintain.
	Unchanged            func() bool
	Truncating, Maintain sync.Locker // locks of the log
}

// Replace recomputes the snapshot from an earlier valid snapshot and the batches after it. Like the
// repair of an index, it computes without holding a lock.
//
// Nothing that a later start needs is lost. Cleaning keeps the last batch of each producer, so the
// remaining batches contain the last sequence number and the open transaction of each producer.
// Passes and truncations rely on the same computation (snapshots.Files.EnsureAt). Only batches
// before a producer's last batch may be missing; they only serve to detect duplicates that a client
// sends within seconds. Retention may have deleted all batches of a producer. If the damaged
// snapshot is the only one that contains such a producer, the producer's state is taken from
// memory. That state may include batches above the snapshot, which does no harm: the snapshot is
// used either at the next start, which applies these batches, or after a truncation, which never
// goes below the high watermark.
//
// A snapshot below the first segment, or above the log end, is never used, so Replace removes it.
func (s Snapshot) Replace() error {
	list := s.List.Acquire()
	if list == nil {
		return segmentlist.ErrClosed
	}
	defer list.Release()
	first := list.Handles[0].Base()
	if s.Offset < first || s.Offset > s.LogEnd {
		return s.commit(func() error { return s.Files.Remove(s.Offset) })
	}
	state, _, err := s.Files.StateAt(list.Handles, s.Offset, s.Offset)
	if err != nil {
		return fmt.Errorf("compute the producer state at %d: %w", s.Offset, err)
	}
	state.Add(s.Idle(first))
	return s.commit(func() error { return s.Files.Write(s.Offset, state.Encode(s.Offset)) })
}

// commit calls do while neither a truncation nor a change of the snapshots is running.
func (s Snapshot) commit(do func() error) error {
	s.Truncating.Lock()
	defer s.Truncating.Unlock()
	s.Maintain.Lock()
	defer s.Maintain.Unlock()
	if !s.Unchanged() {
		return segmentlist.ErrChanged
	}
	return do()
}
