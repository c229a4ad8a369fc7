package sidecars

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// MemoryBytes is the maximum memory for building one sidecar. It is the smallest amount with which
// a segment of any size can be sorted in two steps.
const MemoryBytes = 16 << 20

// Slot limits the number of key sidecars that are built concurrently in all logs, because each
// build needs memory. It is locked before Set.building. The zero value does not limit the builds.
type Slot struct {
	Lock   func(ctx context.Context) error
	Unlock func()
}

func (s Slot) lock(ctx context.Context) error {
	if s.Lock == nil {
		return nil
	}
	return s.Lock(ctx)
}

func (s Slot) unlock() {
	if s.Unlock != nil {
		s.Unlock()
	}
}

// Options limits the build of one sidecar. Scanned is called before n bytes of the segment are
// read, and Options.Throttle before n bytes of any other file are read or written.
type Options struct {
	keys.Options
	Scanned    func(ctx context.Context, n int) error // optional
	Slot       Slot
	Background bool // true if the log counts the bytes; false if the pass counts them
}

// sidecarRetry is the delay before the next attempt after building a sidecar has failed.
const sidecarRetry = time.Minute

// ErrNoKeys is returned for a log that collects no keys, because the log is not compacted or its
// salt cannot be read.
var ErrNoKeys = errors.New("the log collects no keys")

// OpenOrBuild opens the sidecar of a sealed segment for a pass. If the sidecar is missing or
// unusable, OpenOrBuild builds it first. It fails with segmentlist.ErrChanged if the segment is no
// longer in the log. The caller closes the reader, and calls Trim after the pass.
func (s *Set) OpenOrBuild(ctx context.Context, target *segment.Segment,
	opts Options) (*keys.Reader, error) {
	h, err := s.hold(target)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	reader, err := s.Open(h, true)
	if err == nil || !keys.Unusable(err) && !errors.Is(err, fs.ErrNotExist) {
		return reader, err
	}
	if err := opts.Slot.lock(ctx); err != nil {
		return nil, err
	}
	defer opts.Slot.unlock()
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	if reader, err = s.Open(h, true); err == nil {
		return reader, nil // another goroutine built the sidecar while this one waited
	}
	if err := s.Build(ctx, h, opts); err != nil {
		return nil, err
	}
	return s.Open(h, true)
}

// Rebuild builds the sidecar of a sealed segment, even if a sidecar exists. It fails with
// segmentlist.ErrChanged if the segment is no longer in the log.
func (s *Set) Rebuild(ctx context.Context, target *segment.Segment, opts Options) error {
	h, err := s.hold(target)
	if err != nil {
		return err
	}
	defer h.Release()
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.Build(ctx, h, opts)
}

// hold returns the handle of a segment in the log with a new reference, which the caller releases.
// It keeps no reference to the other segments, because building a sidecar may take long.
func (s *Set) hold(target *segment.Segment) (*segmentlist.Handle, error) {
	list := s.log.Acquire()
	if list == nil {
		return nil, segmentlist.ErrClosed
	}
	defer list.Release()
	for _, h := range list.Handles {
		if h.Segment == target {
			h.Acquire()
			return h, nil
		}
	}
	return nil, segmentlist.ErrChanged
}

// Build builds the sidecar of a sealed segment, either from its spool or by scanning the segment.
// The caller holds Set.building.
func (s *Set) Build(ctx context.Context, h *segmentlist.Handle, opts Options) error {
	if s.Salt.Load() == nil {
		return ErrNoKeys
	}
	if err := s.saveSalt(); err != nil {
		return err
	}
	truncations := s.log.Truncations()
	s.mu.Lock()
	spool, err := s.Spools.takeLocked(h), error(nil)
	s.mu.Unlock()
	if spool != nil {
		if err = s.buildFrom(ctx, h, truncations, spool, opts); errors.Is(err, keys.ErrMismatch) ||
			keys.Unusable(err) {
			s.logger.Warn("spooled keys do not match their segment; scanning the segment instead",
				"segment", h.Base(), "error", err)
			spool, err = nil, nil
		}
	}
	if spool == nil && err == nil {
		err = s.scan(ctx, h, truncations, opts)
	}
	if err != nil {
		return fmt.Errorf("build the key sidecar file of segment %d: %w", h.Base(), err)
	}
	return nil
}

// scanHeldBytes is the maximum size of a spool that a scan keeps in memory instead of in a file. It
// suffices for about 200,000 records, or for 1 GiB of records of 5 KB. Only one scan runs at a time
// in a log.
const scanHeldBytes = 4 << 20

// scan builds a sidecar from the segment's data file.
func (s *Set) scan(ctx context.Context, h *segmentlist.Handle, truncations int64,
	opts Options) error {
	salt := *s.Salt.Load()
	spool := keys.NewSpool(s.fs, s.Path(h.Base(), keys.SpoolExtension, ""), h.Base(), salt)
	spool.Hold(scanHeldBytes)
	scan := keys.ScanOptions{Read: func(n int) error {
		if opts.Background {
			s.ScannedBytes.Add(int64(n))
		}
		if err := ctx.Err(); err != nil || opts.Scanned == nil {
			return err
		}
		return opts.Scanned(ctx, n)
	}}
	if err := keys.Scan(h.Segment, salt.Hasher(), spool, scan); err != nil {
		s.Spools.discard(spool, nil)
		return err
	}
	return s.buildFrom(ctx, h, truncations, spool, opts)
}

// buildFrom builds a sidecar from a spool, and discards the spool. It renames the sidecar to its
// final name only if the segment is still in the log. It checks this under Log.maintain.
func (s *Set) buildFrom(ctx context.Context, h *segmentlist.Handle, truncations int64,
	spool *keys.Spool,
	opts Options) error {
	defer s.Spools.discard(spool, nil)
	identity := keys.Identity{Base: h.Base(), LogBytes: h.SizeBytes()}
	opts.Data = h.File()
	opts.Commit = func(publish func() error) error {
		s.maintain.Lock()
		defer s.maintain.Unlock()
		if !s.log.OwnsSealed(h, truncations) {
			return segmentlist.ErrChanged
		}
		return publish()
	}
	built, err := keys.Build(ctx, s.fs, spool, identity, s.Name(h.Base()), opts.Options)
	if opts.Background {
		s.ReadBytes.Add(built.ReadBytes)
		s.WrittenBytes.Add(built.WrittenBytes)
	}
	if err != nil {
		return err
	}
	h.Sidecar.Store(&segmentlist.Sidecar{
		LogBytes: identity.LogBytes, Digest: spool.Identity().Digest, Records: built.Records,
		Counted: true, Verified: true,
	})
	return nil
}

// BuildNext builds one missing sidecar of the log, or deletes a sidecar that should not be kept
// (Keeps). It reports whether the caller should call it again at once.
func (s *Set) BuildNext(ctx context.Context, now time.Time, opts Options) (more bool) {
	if fault := s.Spools.fault.Swap(nil); fault != nil {
		s.logger.Warn("failed to spool the keys of a segment; the segment will be scanned instead",
			"error", *fault)
	}
	settings := s.log.Settings()
	if !settings.Compact {
		if settings.Delete { // a log that neither deletes nor compacts is not configured yet
			s.clear(ctx)
		}
		return false
	}
	s.cleared.Store(false)
	h, missing := s.next(now)
	if h == nil {
		return false
	}
	defer h.Release()
	if opts.Slot.lock(ctx) != nil {
		return false
	}
	defer opts.Slot.unlock()
	if s.lock(ctx) != nil {
		return false
	}
	defer s.unlock()
	if !missing {
		s.remove(h)
		return true
	}
	began := time.Now()
	err := s.Build(ctx, h, opts)
	switch {
	case err == nil:
		s.logger.Debug("key sidecar file built", "segment", h.Base(), "took", time.Since(began))
		return true
	case ctx.Err() != nil, errors.Is(err, segmentlist.ErrChanged), errors.Is(err,
		segmentlist.ErrClosed):
		return false
	}
	s.logger.Warn("failed to build a key sidecar file", "segment", h.Base(), "error", err)
	h.Sidecar.Store(&segmentlist.Sidecar{LogBytes: h.SizeBytes(), Retry: now.Add(sidecarRetry)})
	return true
}

// next returns the first sealed segment whose sidecar is missing or should not be kept. missing is
// true if the sidecar is missing. h is nil if there is no such segment. The caller releases h.
func (s *Set) next(now time.Time) (h *segmentlist.Handle, missing bool) {
	list := s.log.Acquire()
	if list == nil {
		return nil, false
	}
	defer list.Release()
	defer func() {
		if h != nil {
			h.Acquire()
		}
	}()
	end := s.log.CleanableEnd()
	for i, h := range list.Handles[:len(list.Handles)-1] {
		if list.Handles[i+1].Base() > end {
			break
		}
		if h.SidecarState() == nil {
			s.load(h)
		}
		state := h.SidecarState()
		if state == nil {
			continue // load has failed because of a disk error
		}
		switch pays := Keeps(state.LogBytes, state.Records); {
		case state.Digest == 0 && pays && now.After(state.Retry):
			return h, true
		case state.Digest != 0 && !pays:
			return h, false
		}
	}
	return nil, false
}

// load reads the state of a segment's sidecar from the directory. If the disk fails, the state
// stays unknown.
func (s *Set) load(h *segmentlist.Handle) {
	size := h.SizeBytes()
	reader, err := s.Open(h, false)
	switch {
	case err == nil:
		_ = reader.Close() // the file was only read, so an error of Close is irrelevant
	case keys.Unusable(err), errors.Is(err, fs.ErrNotExist):
		h.Sidecar.Store(&segmentlist.Sidecar{LogBytes: size, Records: EstimateRecords(h)})
		if keys.Unusable(err) {
			s.logger.Info("key sidecar file unusable; it will be rebuilt", "segment", h.Base(),
				"error", err)
		}
	}
}

// sidecarRecordBytesMin is the minimum mean size of a segment's records on disk at which the
// segment's sidecar is kept (ADR 0081).
const sidecarRecordBytesMin = 100

// Keeps reports whether a segment's sidecar is kept after the pass for which it was built. A
// record's entry in the sidecar takes about 18 bytes. This is little compared with a record of one
// kilobyte, but half the size of a record of forty bytes (cleaner invariant F11).
func Keeps(logBytes int64, records int) bool {
	return logBytes >= sidecarRecordBytesMin*int64(records)
}

// estimateBatches is the number of batches that EstimateRecords reads.
const estimateBatches = 16

// EstimateRecords estimates the number of a segment's records from the headers of its first
// batches. After cleaning, the segment's offsets do not show this number. If the headers cannot be
// read, the estimate is 0, which makes the caller build the sidecar. The build then either succeeds
// or returns the error.
func EstimateRecords(h *segmentlist.Handle) int {
	var position, records int64
	for range estimateBatches {
		header, err := h.HeaderAt(position)
		if err != nil {
			break
		}
		records += int64(header.Count())
		position += int64(header.SizeBytes)
	}
	if position == 0 {
		return 0
	}
	return int(float64(records) * float64(h.SizeBytes()) / float64(position))
}

// clear deletes all sidecars of a log that is not compacted. It does so once after a start. If a
// crash restores deleted files, the next start deletes them.
func (s *Set) clear(ctx context.Context) {
	if s.cleared.Load() || s.lock(ctx) != nil {
		return
	}
	defer s.unlock()
	s.maintain.Lock()
	defer s.maintain.Unlock()
	list := s.log.Acquire()
	if list == nil {
		return // the log is closed, and its directory may belong to another log now
	}
	defer list.Release()
	s.mu.Lock()
	s.Spools.DiscardAllLocked()
	s.mu.Unlock()
	entries, err := s.fs.ReadDir(s.dir)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), keys.Extension) {
			err = errors.Join(err, s.fs.Remove(filepath.Join(s.dir, entry.Name())))
		}
	}
	if err != nil {
		s.logger.Warn("failed to delete the key sidecar files of a log that is not compacted",
			"error", err)
		return
	}
	for _, h := range list.Handles {
		h.Sidecar.Store(nil)
	}
	s.cleared.Store(true)
}
