package logstore

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// spoolsMax is the number of spools of rolled segments that a log keeps until their sidecars are
// built. If sidecars are not built fast enough, the oldest spools are discarded and their segments
// are scanned instead.
const spoolsMax = 4

// spools holds the keys of the segments that this process has appended to: one spool for the active
// segment and one for each rolled segment that has no sidecar yet. Log.mu guards all fields but
// fault.
type spools struct {
	fs  vfs.FS
	dir string

	active *keys.Spool // nil if some keys of the active segment are unknown
	rolled []rolledSpool

	// fault is the error because of which the keys of a segment were discarded, until
	// sidecars.buildNext logs it: no log line is written under Log.mu.
	fault atomic.Pointer[error]
}

// rolledSpool is the spool of a segment that takes no more appends.
type rolledSpool struct {
	segment *handle
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

// collector returns a collector for the keys of one batch, nil if the log keeps no keys. The caller
// calls release.
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

// appendLocked adds the keys of a batch that was just appended to the active segment. An error
// discards the spool and never fails the append: the segment is scanned later. A batch may be left
// out: the next batch does not follow the last one in the spool, which then ends. Log.mu is held.
func (s *spools) appendLocked(active *handle, salt keys.Salt, b record.Parts,
	collected []keys.KeyedRecord) {
	position := active.SizeBytes() - int64(b.SizeBytes())
	if s.active == nil {
		if position != 0 {
			return // the earlier keys of this segment are unknown
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

// appendMarkerLocked adds a control batch, whose key is not a user's key. Log.mu is held.
func (s *spools) appendMarkerLocked(active *handle, salt keys.Salt, b record.Batch) {
	var collected []keys.KeyedRecord
	err := b.Records(len(b), func(r *record.Record) error {
		collected = append(collected,
			keys.KeyedRecord{Record: keys.Record{BodyBytes: r.BodyBytes(), NullKey: true}})
		return nil
	})
	if err == nil { // on an error the batch is left out, and the next one ends the spool
		s.appendLocked(active, salt, record.Whole(b), collected)
	}
}

// discard deletes a spool. The next sidecars.buildNext logs the cause. A gap is expected and is not
// logged: replicated batches are never added.
func (s *spools) discard(spool *keys.Spool, cause error) {
	if errors.Is(cause, keys.ErrMismatch) {
		cause = nil
	}
	if err := errors.Join(cause, spool.Discard()); err != nil {
		s.fault.Store(&err)
	}
}

// rollLocked queues the spool of the segment that was active for its sidecar. Log.mu is held.
func (s *spools) rollLocked(rolled *handle) {
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

// takeLocked removes and returns the spool of a rolled segment, nil if there is none. Log.mu is
// held.
func (s *spools) takeLocked(h *handle) *keys.Spool {
	for i, r := range s.rolled {
		if r.segment == h {
			s.rolled = append(append([]rolledSpool(nil), s.rolled[:i]...), s.rolled[i+1:]...)
			return r.spool
		}
	}
	return nil
}

// discardAllLocked discards every spool: the log is closed, was truncated, or is no longer
// compacted. Log.mu is held.
func (s *spools) discardAllLocked() {
	for _, r := range s.rolled {
		s.discard(r.spool, nil)
	}
	if s.active != nil {
		s.discard(s.active, nil)
	}
	s.active, s.rolled = nil, nil
}
