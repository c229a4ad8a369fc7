package logstore

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
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// sidecars builds, opens and removes the key sidecars of one log (docs/format/keys.md).
//
// The cleaner's goroutine builds a sidecar once its segment is sealed: from the spool that appends
// filled, or by a scan. Neither holds a lock that an append needs. The sidecar gets its name under
// Log.maintain, so it cannot appear beside data with which a swap has replaced its segment.
type sidecars struct {
	log      sidecarLog
	fs       vfs.FS
	dir      string
	logger   *slog.Logger // with the partition
	maintain sync.Locker  // Log.maintain
	mu       sync.Locker  // Log.mu, which guards spools

	spools spools

	// salt is nil until the log is compacted. It never changes while the log is open: spools are
	// hashed with it.
	salt atomic.Pointer[keys.Salt]
	// saltSaved is set once the salt's file is durable, which precedes the first sidecar.
	saltSaved atomic.Bool
	// cleared is set once all sidecars of a log that is not compacted were removed.
	cleared atomic.Bool
	// building is held while a sidecar is built or removed, one at a time: temporary files share
	// their names. It is a channel and no mutex because it is held over I/O and over waits for the
	// I/O budget, so a waiter must be able to return when its context ends.
	building chan struct{}

	// Bytes of sidecars that are built in the background. A pass counts what it builds itself.
	readBytes, writtenBytes atomic.Int64 // of sidecars and spools
	scannedBytes            atomic.Int64 // of data files
}

// sidecarLog is what sidecars use of their log.
type sidecarLog interface {
	Settings() topicconfig.Settings
	// acquire returns the current segments, nil if the log is closed.
	acquire() *segmentList
	// cleanableEnd is the end of the records that may be cleaned: no segment above it has a
	// sidecar.
	cleanableEnd() int64
	// truncationCount returns the number of truncations of the log so far.
	truncationCount() int64
	// ownsSealed reports whether a segment is in the log's list and sealed, and whether the log was
	// not truncated since truncationCount returned the given count. Log.maintain is held.
	ownsSealed(h *handle, truncations int64) bool
}

func newSidecars(l *Log) sidecars {
	return sidecars{
		log: l, fs: l.env.fs, dir: l.dir, logger: l.env.logger.With("partition", l.id),
		maintain: &l.maintain, mu: &l.mu.Mutex,
		spools:   spools{fs: l.env.fs, dir: l.dir},
		building: make(chan struct{}, 1),
	}
}

// enable makes a compacted log collect the keys of the records that are appended from now on. It is
// called for each new config. A salt that cannot be read keeps the log from collecting keys until
// the next start; passes fail until then.
func (s *sidecars) enable(compacted bool) {
	if !compacted || s.salt.Load() != nil {
		return
	}
	salt, saved, err := readSalt(s.fs, s.dir)
	if err != nil {
		s.logger.Warn("failed to read the key salt", "error", err)
		return
	}
	s.saltSaved.Store(saved)
	s.salt.Store(&salt)
}

// readSalt returns the salt of a directory. If there is no usable one, it returns a new salt, which
// is not written yet.
func readSalt(fsys vfs.FS, dir string) (salt keys.Salt, saved bool, err error) {
	content, err := fsys.ReadFile(filepath.Join(dir, keys.SaltFile))
	if err == nil {
		if salt, err = keys.DecodeSalt(content); err == nil {
			return salt, true, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, keys.ErrCorrupt) {
		return salt, false, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	return salt, false, nil
}

// saveSalt makes the salt durable before the first sidecar that depends on it: hashes whose salt a
// crash has lost would never match again. The salt is not written when the partition is created,
// which saves a sync.
func (s *sidecars) saveSalt() error {
	if s.saltSaved.Load() {
		return nil
	}
	if err := vfs.WriteFileAtomic(s.fs, filepath.Join(s.dir, keys.SaltFile),
		s.salt.Load().Encode()); err != nil {
		return fmt.Errorf("%w: write the key salt: %w", ErrStorage, err)
	}
	s.saltSaved.Store(true)
	return nil
}

// lock waits for the right to build or remove sidecars of this log.
func (s *sidecars) lock(ctx context.Context) error {
	select {
	case s.building <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sidecars) unlock() { <-s.building }

// path is the path of one of the files that belong to a segment.
func (s *sidecars) path(base int64, extension, suffix string) string {
	return filepath.Join(s.dir, segment.Name(base, extension, suffix))
}

// name is the path of the sidecar of a segment that is in the log.
func (s *sidecars) name(base int64) string { return s.path(base, keys.Extension, "") }

// invalidateLocked discards the collected keys of the log before the log end falls, because the
// same ordinals may then refer to other records. A sidecar that is being built is discarded
// (buildFrom), and Segment.Truncate removes those of truncated segments. Log.mu is held.
func (s *sidecars) invalidateLocked(handles []*handle) {
	s.spools.discardAllLocked()
	for _, h := range handles {
		h.sidecar.Store(nil)
	}
}

// open opens the sidecar of a segment. With verify, it first compares a sidecar that this process
// has neither built nor verified with the data.
func (s *sidecars) open(h *handle, verify bool) (*keys.Reader, error) {
	salt := s.salt.Load()
	if salt == nil {
		return nil, errNoKeys
	}
	want := keys.Expect{Identity: keys.Identity{Base: h.Base(), LogBytes: h.SizeBytes()},
		SaltID: salt.ID()}
	known := h.sidecarState()
	if known != nil {
		want.Digest = known.digest
	}
	reader, err := keys.Open(s.fs, s.name(h.Base()), want)
	if err != nil {
		return nil, err
	}
	state := sidecarState{logBytes: want.LogBytes, digest: reader.Identity().Digest,
		records: reader.Counts().Records, verified: verify}
	if known != nil && known.digest != 0 && known.verified {
		state.verified = true
	} else if verify {
		if err := reader.Verify(h.File()); err != nil {
			return nil, errors.Join(err, reader.Close())
		}
	}
	h.sidecar.Store(&state)
	return reader, nil
}

// remove deletes the sidecar of a segment. The state keeps the number of records, so that the
// sidecar is not built again.
func (s *sidecars) remove(h *handle) {
	s.maintain.Lock()
	defer s.maintain.Unlock()
	list := s.log.acquire()
	if list == nil {
		return
	}
	defer list.release()
	if h.doomed.Load() || !slices.Contains(list.handles, h) {
		return
	}
	if err := s.fs.Remove(s.name(h.Base())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("failed to delete a key sidecar", "segment", h.Base(), "error", err)
	}
	state := sidecarState{logBytes: h.SizeBytes()}
	if known := h.sidecarState(); known != nil {
		state.records = known.records
	}
	h.sidecar.Store(&state)
}

// removeInvalid deletes the sidecar of a segment if the sidecar does not match the data.
func (s *sidecars) removeInvalid(ctx context.Context, of *segment.Segment) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	list := s.log.acquire()
	if list == nil {
		return ErrClosed
	}
	defer list.release()
	if i := slices.IndexFunc(list.handles,
		func(h *handle) bool { return h.Segment == of }); i >= 0 {
		s.remove(list.handles[i])
	}
	return nil
}

// trim deletes the sidecars that were built for one pass only, once the pass has ended. A reader
// that is still open keeps its file.
func (s *sidecars) trim() {
	list := s.log.acquire()
	if list == nil {
		return
	}
	defer list.release()
	for _, h := range list.handles {
		if state := h.sidecarState(); state != nil && state.digest != 0 &&
			!keepsSidecar(state.logBytes, state.records) {
			s.remove(h)
		}
	}
}
