package sidecars

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// Set contains the key sidecars of one log.
//
// The cleaner's goroutine builds a sidecar after its segment is sealed, either from the spool that
// appends have filled or by scanning the segment. The build holds no lock that an append needs. The
// sidecar receives its final name under Log.maintain. So if a swap replaces the segment, the
// sidecar never appears beside the data of the new segment.
type Set struct {
	log      Source
	fs       vfs.FS
	dir      string
	logger   *slog.Logger // logger of the partition
	maintain sync.Locker  // Log.maintain
	mu       sync.Locker  // Log.mu, which guards spools

	Spools spools

	// Salt is nil until the log is compacted. It never changes while the log is open, because the
	// keys in spools are hashed with it.
	Salt atomic.Pointer[keys.Salt]
	// saltSaved is set when the file with the salt is durable. The first sidecar is built only
	// after that.
	saltSaved atomic.Bool
	// savingSalt is held while the file is written.
	savingSalt sync.Mutex
	// cleared is set when all sidecars of a log that is not compacted have been removed.
	cleared atomic.Bool
	// building is held while a sidecar is built or removed. Only one build or removal runs at a
	// time, because the temporary files have the same names. building is a channel and not a mutex,
	// because it is held during I/O and while the build waits for its I/O budget. A waiting
	// goroutine must be able to return when its context ends.
	building chan struct{}

	// The following fields count the bytes for estimates and for sidecars that are built in the
	// background. A pass itself counts the bytes of the sidecars that it builds.
	ReadBytes, WrittenBytes atomic.Int64 // bytes of sidecars and spools
	ScannedBytes            atomic.Int64 // bytes of data files
}

// Source contains the functions of a log that its sidecars use.
type Source struct {
	Settings func() topicconfig.Settings
	// Acquire returns the current segments with a new reference, or nil if the log is closed.
	Acquire func() *segmentlist.List
	// CleanableEnd returns the end offset of the records that may be cleaned. No segment above it
	// has a sidecar.
	CleanableEnd func() int64
	// Truncations returns the number of truncations since the log was opened.
	Truncations func() int64
	// OwnsSealed reports whether a segment is sealed and in the log's segment list, and the log was
	// not truncated after Truncations returned the given number. The caller holds Log.maintain.
	OwnsSealed func(h *segmentlist.Handle, truncations int64) bool
}

// New returns the sidecars of a log in the directory dir. The logger adds the partition to each
// line. maintain and mu are locks of the log.
func New(log Source, fsys vfs.FS, dir string, logger *slog.Logger, maintain, mu sync.Locker) Set {
	return Set{
		log: log, fs: fsys, dir: dir, logger: logger, maintain: maintain, mu: mu,
		Spools:   spools{fs: fsys, dir: dir},
		building: make(chan struct{}, 1),
	}
}

// Enable makes a compacted log collect the keys of records that are appended afterwards. It is
// called for each new config. If the salt cannot be read, the log collects no keys, and passes fail
// until a later call of Enable reads it.
func (s *Set) Enable(compacted bool) {
	if !compacted || s.Salt.Load() != nil {
		return
	}
	salt, saved, err := readSalt(s.fs, s.dir)
	if err != nil {
		s.logger.Warn("failed to read the key salt", "error", err)
		return
	}
	s.saltSaved.Store(saved)
	s.Salt.Store(&salt)
}

// readSalt returns the salt in the file in the directory dir. If there is no usable file, it
// returns a new salt that is not written yet.
func readSalt(fsys vfs.FS, dir string) (salt keys.Salt, saved bool, err error) {
	content, err := fsys.ReadFile(filepath.Join(dir, keys.SaltFile))
	if err == nil {
		if salt, err = keys.DecodeSalt(content); err == nil {
			return salt, true, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, keys.ErrCorrupt) {
		return salt, false, fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
	}
	_, _ = rand.Read(salt[:]) // this never fails: crypto/rand ends the process instead
	return salt, false, nil
}

// saveSalt makes the salt durable. It is called before the first sidecar that depends on the salt
// is built: if a crash lost the salt, no new hash would match the hashes in that sidecar. The salt
// is not written when the partition is created, which saves a sync.
func (s *Set) saveSalt() error {
	if s.saltSaved.Load() {
		return nil
	}
	s.savingSalt.Lock()
	defer s.savingSalt.Unlock()
	return s.writeSalt()
}

// RewriteSalt replaces a damaged salt file by one with the salt in memory. If no salt is in memory,
// the log is not compacted, and RewriteSalt removes the file: if the log is compacted later, its
// sidecars are built with another salt. The caller holds Log.maintain.
func (s *Set) RewriteSalt() error {
	s.savingSalt.Lock()
	defer s.savingSalt.Unlock()
	if s.Salt.Load() != nil {
		return s.writeSalt()
	}
	if err := s.fs.Remove(filepath.Join(s.dir, keys.SaltFile)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: remove the key salt: %w", segmentlist.ErrStorage, err)
	}
	return s.fs.SyncDir(s.dir)
}

// KnownSalt returns the content that this process last read from the salt's file or wrote to it. ok
// is false if the file is not written yet.
func (s *Set) KnownSalt() (content []byte, ok bool) {
	s.savingSalt.Lock()
	defer s.savingSalt.Unlock()
	if salt := s.Salt.Load(); salt != nil && s.saltSaved.Load() {
		return salt.Encode(), true
	}
	return nil, false
}

// writeSalt durably writes the salt. The caller holds savingSalt.
func (s *Set) writeSalt() error {
	if err := vfs.WriteFileAtomic(s.fs, filepath.Join(s.dir, keys.SaltFile),
		s.Salt.Load().Encode()); err != nil {
		return fmt.Errorf("%w: write the key salt: %w", segmentlist.ErrStorage, err)
	}
	s.saltSaved.Store(true)
	return nil
}

// lock acquires Set.building, the right to build or remove sidecars of this log.
func (s *Set) lock(ctx context.Context) error {
	select {
	case s.building <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Set) unlock() { <-s.building }

// Path returns the path of a file that belongs to the segment with the given base offset.
func (s *Set) Path(base int64, extension, suffix string) string {
	return filepath.Join(s.dir, segment.Name(base, extension, suffix))
}

// Name returns the path of the key sidecar for a segment in the log.
func (s *Set) Name(base int64) string { return s.Path(base, keys.Extension, "") }

// InvalidateLocked discards the log's collected keys before the log end falls, because the same
// ordinals may then refer to other records. buildFrom discards a sidecar that is being built.
// Segment.Truncate removes a truncated segment's sidecar. The caller holds Log.mu.
func (s *Set) InvalidateLocked(handles []*segmentlist.Handle) {
	s.Spools.DiscardAllLocked()
	for _, h := range handles {
		h.Sidecar.Store(nil)
	}
}

// Open opens the sidecar of a segment. If verify is true, it compares the sidecar with the data
// first, unless this process has already built or verified the sidecar.
func (s *Set) Open(h *segmentlist.Handle, verify bool) (*keys.Reader, error) {
	want, known, err := s.expect(h)
	if err != nil {
		return nil, err
	}
	reader, err := keys.Open(s.fs, s.Name(h.Base()), want)
	if err != nil {
		return nil, err
	}
	state := segmentlist.Sidecar{LogBytes: want.LogBytes, Digest: reader.Identity().Digest,
		Records: reader.Counts().Records, Counted: true, Verified: verify}
	if known != nil && known.Digest != 0 && known.Verified {
		state.Verified = true
	} else if verify {
		if err := reader.Verify(h.File()); err != nil {
			return nil, errors.Join(err, reader.Close())
		}
	}
	h.Sidecar.Store(&state)
	return reader, nil
}

// expect returns the values that a segment's sidecar must match, and the known state of the
// sidecar.
func (s *Set) expect(h *segmentlist.Handle) (want keys.Expect, known *segmentlist.Sidecar,
	err error) {
	salt := s.Salt.Load()
	if salt == nil {
		return want, nil, ErrNoKeys
	}
	want = keys.Expect{Identity: keys.Identity{Base: h.Base(), LogBytes: h.SizeBytes()},
		SaltID: salt.ID()}
	if known = h.SidecarState(); known != nil {
		want.Digest = known.Digest
	}
	return want, known, nil
}

// remove deletes a segment's sidecar. The state in memory keeps the number of records. Otherwise
// the sidecar would be built again.
func (s *Set) remove(h *segmentlist.Handle) {
	s.maintain.Lock()
	defer s.maintain.Unlock()
	list := s.log.Acquire()
	if list == nil {
		return
	}
	defer list.Release()
	if h.Doomed.Load() || !slices.Contains(list.Handles, h) {
		return
	}
	if err := s.fs.Remove(s.Name(h.Base())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("failed to delete a key sidecar file", "segment", h.Base(), "error", err)
	}
	state := segmentlist.Sidecar{LogBytes: h.SizeBytes()}
	if known := h.SidecarState(); known != nil {
		state.Records, state.Counted = known.Records, known.Counted
	}
	h.Sidecar.Store(&state)
}

// RemoveInvalid deletes a segment's sidecar, because a pass has found that the sidecar contradicts
// the data.
func (s *Set) RemoveInvalid(ctx context.Context, target *segment.Segment) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	list := s.log.Acquire()
	if list == nil {
		return segmentlist.ErrClosed
	}
	defer list.Release()
	if i := slices.IndexFunc(list.Handles,
		func(h *segmentlist.Handle) bool { return h.Segment == target }); i >= 0 {
		s.remove(list.Handles[i])
	}
	return nil
}

// LoadStates reads the headers of sidecars whose state is not known, such as sidecars that a pass
// has written. It does nothing while a sidecar is being built.
func (s *Set) LoadStates() {
	select {
	case s.building <- struct{}{}:
		defer s.unlock()
	default:
		return
	}
	list := s.log.Acquire()
	if list == nil {
		return
	}
	defer list.Release()
	for _, h := range list.Handles[:len(list.Handles)-1] {
		if h.SidecarState() == nil && s.Salt.Load() != nil {
			s.load(h)
		}
	}
}

// Trim deletes the sidecars that were built only for a pass, after the pass has ended. An open
// reader can still read its file.
func (s *Set) Trim() {
	list := s.log.Acquire()
	if list == nil {
		return
	}
	defer list.Release()
	for _, h := range list.Handles {
		if state := h.SidecarState(); state != nil && state.Digest != 0 &&
			!Keeps(state.LogBytes, state.Records) {
			s.remove(h)
		}
	}
}

// CountsOf returns the counts in a segment's key sidecar. ok is false if the segment has no usable
// sidecar now. CountsOf does not change the state of the sidecar, because only builds change it.
func (s *Set) CountsOf(h *segmentlist.Handle) (counts keys.Counts, ok bool) {
	if counts, ok := h.Facts.CountsOf(h.SizeBytes()); ok {
		return counts, true
	}
	want, state, err := s.expect(h)
	if err != nil || state != nil && state.Digest == 0 {
		return counts, false
	}
	reader, err := keys.Open(s.fs, s.Name(h.Base()), want)
	if err != nil {
		return counts, false
	}
	counts = reader.Counts()
	_ = reader.Close() // the file was only read
	h.Facts.SetCounts(want.LogBytes, counts)
	return counts, true
}
