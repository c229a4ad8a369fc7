package logstore

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

// spoolsMax is the number of spools of rolled segments that a log keeps until their sidecars are
// built. If sidecars are not built fast enough, the oldest spools are discarded, and the sidecars
// of their segments are built from a scan of the segment instead.
const spoolsMax = 4

// spools contains the collected keys of the segments that this process has appended to. There is
// one spool for the active segment, and one for each rolled segment that has no sidecar yet. Log.mu
// guards all fields except fault.
type spools struct {
	fs  vfs.FS
	dir string

	active *keys.Spool // nil if the active segment is empty, or if some of its keys are unknown
	rolled []rolledSpool

	// fault is the last error with which a spool was discarded. sidecars.buildNext logs it later,
	// because no log line is written under Log.mu.
	fault atomic.Pointer[error]
}

// rolledSpool is the spool of a segment that accepts no appends any longer.
type rolledSpool struct {
	segment *segmentlist.Handle
	spool   *keys.Spool
}

// keyCollector gathers the keys of one batch while the batch is validated.
type keyCollector struct {
	keys.Collector
	// add is a method value that is created once, to avoid an allocation for each batch.
	add func(record.RecordKey)
}

var keyCollectors = sync.Pool{New: func() any {
	c := new(keyCollector)
	c.add = c.Add
	return c
}}

// collector returns a collector for the keys of one batch, nil if the log needs no key sidecars.
// The caller calls release.
func (s *sidecars) collector(compacted bool) *keyCollector {
	salt := s.salt.Load()
	if !compacted || salt == nil {
		return nil
	}
	taken := keyCollectors.Get().(*keyCollector)
	taken.Hasher = salt.Hasher()
	return taken
}

func (c *keyCollector) release() {
	if c != nil {
		c.Reset()
		keyCollectors.Put(c)
	}
}

// appendLocked adds the keys of a batch that was just appended to the active segment. The caller
// holds Log.mu. An error discards the spool and does not fail the append; the sidecar is later
// built from a scan of the segment. The spool is also discarded if the batch before this one was
// not added, because a spool must not have gaps.
func (s *spools) appendLocked(active *segmentlist.Handle, salt keys.Salt, b record.Parts,
	collected []keys.KeyedRecord) {
	position := active.SizeBytes() - int64(b.SizeBytes())
	if s.active == nil {
		if position != 0 {
			return // the keys of the segment's earlier batches are unknown, so no spool is possible
		}
		name := filepath.Join(s.dir, segment.Name(active.Base(), keys.SpoolExtension, ""))
		s.active = keys.NewSpool(s.fs, name, active.Base(), salt)
	}
	described := keys.Describe(b.Batch, position)
	described.SizeBytes = b.SizeBytes()
	if err := s.active.Append(described, collected); err != nil {
		s.discard(s.active, err)
		s.active = nil
	}
}

// appendMarkerLocked adds a control batch like a batch of records without keys, because the key of
// a marker is not a key of the user. The caller holds Log.mu.
func (s *spools) appendMarkerLocked(active *segmentlist.Handle, salt keys.Salt, b record.Batch) {
	var collected []keys.KeyedRecord
	err := b.Records(len(b), func(r *record.Record) error {
		collected = append(collected,
			keys.KeyedRecord{Record: keys.Record{BodyBytes: r.BodyBytes(), NullKey: true}})
		return nil
	})
	// if decoding fails, the batch is not added, and the next batch discards the spool
	if err == nil {
		s.appendLocked(active, salt, record.Whole(b), collected)
	}
}

// discard deletes a spool. The next sidecars.buildNext logs the cause, unless it is
// keys.ErrMismatch, a gap in the spool. Gaps are expected, because replicated batches are never
// added.
func (s *spools) discard(spool *keys.Spool, cause error) {
	if errors.Is(cause, keys.ErrMismatch) {
		cause = nil
	}
	if err := errors.Join(cause, spool.Discard()); err != nil {
		s.fault.Store(&err)
	}
}

// rollLocked queues the spool of a segment that was just rolled, so that a sidecar is built from
// it. The caller holds Log.mu.
func (s *spools) rollLocked(rolled *segmentlist.Handle) {
	if s.active == nil {
		return
	}
	s.rolled = append(s.rolled, rolledSpool{rolled, s.active})
	s.active = nil
	if len(s.rolled) > spoolsMax {
		s.discard(s.rolled[0].spool, nil)
		s.rolled = append([]rolledSpool(nil), s.rolled[1:]...)
	}
}

// takeLocked removes and returns the spool of a rolled segment, nil if the segment has no spool.
// The caller holds Log.mu.
func (s *spools) takeLocked(h *segmentlist.Handle) *keys.Spool {
	for i, r := range s.rolled {
		if r.segment == h {
			s.rolled = append(append([]rolledSpool(nil), s.rolled[:i]...), s.rolled[i+1:]...)
			return r.spool
		}
	}
	return nil
}

// discardAllLocked discards every spool, because the log is closed, was truncated, or is no longer
// compacted. The caller holds Log.mu.
func (s *spools) discardAllLocked() {
	for _, r := range s.rolled {
		s.discard(r.spool, nil)
	}
	if s.active != nil {
		s.discard(s.active, nil)
	}
	s.active, s.rolled = nil, nil
}
