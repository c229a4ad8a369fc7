package sidecars

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// spoolsMax is the number of rolled segments' spools that a log keeps until their sidecars are
// built. If sidecars are not built fast enough, the oldest spools are discarded, and their
// segments' sidecars are built by scanning the segments instead.
const spoolsMax = 4

// spools contains the collected keys of the segments that this process has appended to. There is
// one spool for the active segment, and one for each rolled segment that has no sidecar yet. Log.mu
// guards all fields except fault.
type spools struct {
	fs  vfs.FS
	dir string

	Active *keys.Spool // nil if the active segment is empty or some of its keys are unknown
	Rolled []rolledSpool

	// fault is the last error that caused a spool to be discarded. Set.BuildNext logs it later,
	// because no log line is written under Log.mu.
	fault atomic.Pointer[error]
}

// rolledSpool is the spool of a segment that no longer accepts appends.
type rolledSpool struct {
	segment *segmentlist.Handle
	spool   *keys.Spool
}

// Collector gathers the keys of one batch while the batch is validated.
type Collector struct {
	keys.Collector
	// AddKey is a method value that is created only once, because this saves an allocation for each
	// batch.
	AddKey func(record.RecordKey)
}

var keyCollectors = sync.Pool{New: func() any {
	c := new(Collector)
	c.AddKey = c.Add
	return c
}}

// Collector returns a collector for the keys of one batch, or nil if the log needs no key sidecars.
// The caller calls Release.
func (s *Set) Collector(compacted bool) *Collector {
	salt := s.Salt.Load()
	if !compacted || salt == nil {
		return nil
	}
	taken := keyCollectors.Get().(*Collector)
	taken.Hasher = salt.Hasher()
	return taken
}

// Release returns the collector, which may be nil, to the pool.
func (c *Collector) Release() {
	if c != nil {
		c.Reset()
		keyCollectors.Put(c)
	}
}

// AppendLocked adds the keys of a batch that was just appended to the active segment. The caller
// holds Log.mu. An error discards the spool and does not make the append fail; the sidecar is later
// built by scanning the segment. The spool is also discarded if the previous batch was not added,
// because a spool must not have gaps.
func (s *spools) AppendLocked(active *segmentlist.Handle, salt keys.Salt, b record.Parts,
	collected []keys.KeyedRecord) {
	position := active.SizeBytes() - int64(b.SizeBytes())
	if s.Active == nil {
		if position != 0 {
			return // the keys of earlier batches are unknown, so no spool is possible
		}
		name := filepath.Join(s.dir, segment.Name(active.Base(), keys.SpoolExtension, ""))
		s.Active = keys.NewSpool(s.fs, name, active.Base(), salt)
	}
	described := keys.Describe(b.Batch, position)
	described.SizeBytes = b.SizeBytes()
	if err := s.Active.Append(described, collected); err != nil {
		s.discard(s.Active, err)
		s.Active = nil
	}
}

// AppendMarkerLocked adds a control batch like a batch of records without keys, because a marker's
// key is not a user's key. The caller holds Log.mu.
func (s *spools) AppendMarkerLocked(active *segmentlist.Handle, salt keys.Salt, b record.Batch) {
	var collected []keys.KeyedRecord
	err := b.Records(len(b), func(r *record.Record) error {
		collected = append(collected,
			keys.KeyedRecord{Record: keys.Record{BodyBytes: r.BodyBytes(), NullKey: true}})
		return nil
	})
	// If decoding fails, the batch is not added, and the next batch discards the spool.
	if err == nil {
		s.AppendLocked(active, salt, record.Whole(b), collected)
	}
}

// discard deletes a spool. The next Set.BuildNext logs the cause, unless it is keys.ErrMismatch,
// which means a gap in the spool. Gaps are expected, because replicated batches are never added.
func (s *spools) discard(spool *keys.Spool, cause error) {
	if errors.Is(cause, keys.ErrMismatch) {
		cause = nil
	}
	if err := errors.Join(cause, spool.Discard()); err != nil {
		s.fault.Store(&err)
	}
}

// RollLocked queues the spool of a segment that was just rolled. A sidecar will be built from this
// spool. The caller holds Log.mu.
func (s *spools) RollLocked(rolled *segmentlist.Handle) {
	if s.Active == nil {
		return
	}
	s.Rolled = append(s.Rolled, rolledSpool{rolled, s.Active})
	s.Active = nil
	if len(s.Rolled) > spoolsMax {
		s.discard(s.Rolled[0].spool, nil)
		s.Rolled = append([]rolledSpool(nil), s.Rolled[1:]...)
	}
}

// takeLocked removes and returns the spool of a rolled segment, or returns nil if the segment has
// no spool. The caller holds Log.mu.
func (s *spools) takeLocked(h *segmentlist.Handle) *keys.Spool {
	for i, r := range s.Rolled {
		if r.segment == h {
			s.Rolled = append(append([]rolledSpool(nil), s.Rolled[:i]...), s.Rolled[i+1:]...)
			return r.spool
		}
	}
	return nil
}

// DiscardAllLocked discards every spool, because the log is closed, was truncated, or is no longer
// compacted. The caller holds Log.mu.
func (s *spools) DiscardAllLocked() {
	for _, r := range s.Rolled {
		s.discard(r.spool, nil)
	}
	if s.Active != nil {
		s.discard(s.Active, nil)
	}
	s.Active, s.Rolled = nil, nil
}
