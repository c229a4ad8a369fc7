package segment

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// Sync makes the batches that were appended before the call durable. It may run concurrently with
// Append and does not block an append while it syncs.
//
// Sync does not sync index entries, and writes them only when there are many. Recover rebuilds the
// indexes of an unsealed segment after an unclean stop anyway, and syncing three files instead of
// one would triple the cost of a flush.
//
// If everything is already synced, Sync opens no file and causes no I/O.
func (s *Segment) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if s.mu.broken != nil {
		defer s.mu.Unlock()
		return s.mu.broken
	}
	if s.view.Load().unwritten() >= s.cfg.UnwrittenEntriesMax {
		// A failed write of index entries loses nothing, because the entries stay in memory. Seal
		// and Close, which must write the entries, report the failure.
		_ = s.flushIndexesLocked()
	}
	if err := s.rewriteLocked(); err != nil {
		defer s.mu.Unlock()
		return err // no data is lost: the segment is not broken, and the next Sync may succeed
	}
	named := s.mu.named
	if !s.mu.written && named {
		defer s.mu.Unlock()
		return nil // an earlier sync succeeded
	}
	// Open the file before the sync, because a lack of file descriptors is not a failed sync. A
	// failed sync would break the segment.
	if _, err := s.data.Pin(); err != nil {
		defer s.mu.Unlock()
		return fmt.Errorf("sync segment %d: %w", s.base, err)
	}
	defer s.data.Unpin()
	s.mu.written = false // reset before the sync, because a concurrent append sets it again
	s.mu.Unlock()

	err := s.data.Sync()
	if err == nil && !named {
		err = s.fsys.SyncDir(s.dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return s.breakLocked(err)
	}
	s.mu.named = true
	return nil
}

// breakLocked marks the segment as broken after a failed sync. The kernel may have dropped the
// pages that it failed to write, so a second sync would succeed wrongly.
func (s *Segment) breakLocked(err error) error {
	s.mu.broken = fmt.Errorf("segment %d is unusable since a sync failed: %w", s.base, err)
	return s.mu.broken
}

// Broken returns the error that broke the segment, or nil if the segment is not broken. A broken
// segment rejects every change.
func (s *Segment) Broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.broken
}

// flushIndexesLocked writes the index entries that are only in memory.
func (s *Segment) flushIndexesLocked() error {
	next := *s.view.Load()
	s.mu.indexed = s.mu.indexed || next.unwritten() > 0
	var failed [3]error
	next.offsets, failed[0] = s.offsets.flush(next.offsets)
	next.times, failed[1] = s.times.flush(next.times)
	next.aborted, failed[2] = s.flushAbortedLocked(next.aborted)
	s.view.Store(&next)
	return errors.Join(failed[:]...)
}

// Seal writes the last entry of the time index and syncs all files. Afterwards Append fails until
// Truncate makes the segment writable again. Seal syncs nothing if the segment has not changed
// since it was opened.
func (s *Segment) Seal() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.finishLocked(); err != nil {
		return fmt.Errorf("seal segment %d: %w", s.base, err)
	}
	s.mu.sealed = true
	return s.loadModTimeLocked()
}

// finishLocked writes and syncs everything, because Open must find complete data and indexes. It
// holds mu during the syncs. This delays no append, because the callers Seal and Close run after
// the last append.
func (s *Segment) finishLocked() error {
	if s.mu.broken != nil {
		return s.mu.broken
	}
	if !s.needsSealLocked() {
		return nil
	}
	if err := s.rewriteLocked(); err != nil {
		return err
	}
	last := *s.view.Load()
	last.addTime()
	s.view.Store(&last)
	if err := s.flushIndexesLocked(); err != nil {
		return err
	}
	unpin, err := s.pinLocked()
	if err != nil {
		return err
	}
	defer unpin()
	if err := syncAll(s.filesLocked()); err != nil {
		return s.breakLocked(err)
	}
	if !s.mu.named {
		if err := s.fsys.SyncDir(s.dir); err != nil {
			return s.breakLocked(err)
		}
	}
	s.mu.named, s.mu.written, s.mu.indexed = true, false, false
	return nil
}

// SyncIdleIndexes syncs and closes the index files if they have unsynced changes and no change was
// added since the previous call. A file with unsynced changes must stay open (vfs.Handles). Without
// this method a segment would keep its index files open until Seal, which may be days later.
// Appends continue during the sync. A failed sync breaks the segment, as in Seal.
func (s *Segment) SyncIdleIndexes() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	written := [...]int{v.offsets.written, v.times.written, v.aborted.written}
	idle := written == s.mu.indexesSeen
	s.mu.indexesSeen = written
	if !idle || !s.mu.indexed || s.mu.broken != nil || s.mu.removed {
		return nil
	}
	return s.syncIndexesLocked()
}

// syncIndexesLocked syncs and closes the index files. It unlocks mu during the sync.
func (s *Segment) syncIndexesLocked() error {
	indexes := s.filesLocked()[1:]
	unpin, err := pinAll(indexes)
	if err != nil {
		return fmt.Errorf("sync indexes of segment %d: %w", s.base, err)
	}
	s.mu.indexed = false // reset before the sync, because a concurrent Truncate sets it again
	s.mu.Unlock()
	err = syncAll(indexes)
	unpin()
	s.mu.Lock()
	if err != nil {
		return s.breakLocked(err)
	}
	for _, file := range indexes {
		file.CloseUnused()
	}
	return nil
}

func syncAll(files []*vfs.Handle) error {
	for _, file := range files {
		if err := file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// NeedsSeal reports whether Seal has anything to write or sync. If so, a start after a crash must
// use Recover instead of Open.
func (s *Segment) NeedsSeal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needsSealLocked()
}

// Unsynced reports whether the data or the names of the files are not yet durable.
func (s *Segment) Unsynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.mu.mustRewrite.empty() || s.mu.written || !s.mu.named
}

// needsSealLocked reports whether Open, after a crash, would miss something or treat unsynced data
// as durable. This is the case if data, a name or an index file is not synced, if index entries are
// only in memory, or if the time index does not end with the largest timestamp.
func (s *Segment) needsSealLocked() bool {
	v := s.view.Load()
	return !s.mu.mustRewrite.empty() || s.mu.written || s.mu.indexed || !s.mu.named ||
		v.unwritten() > 0 || v.maxTimestamp > v.lastTime()
}

// SetModTime sets the modification time of the data file. The cleaner sets a cleaned segment's
// modification time to the modification time of its last source segment.
func (s *Segment) SetModTime(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fsys.Chtimes(s.pathLocked(LogExtension), t); err != nil {
		return fmt.Errorf("set time of segment %d: %w", s.base, err)
	}
	// The next Sync or Close makes the time durable.
	s.mu.written = true
	s.modTime.Store(&t)
	return nil
}

// loadModTimeLocked reads the modification time of the data file into memory. ModTime therefore
// causes no I/O.
func (s *Segment) loadModTimeLocked() error {
	info, err := s.fsys.Stat(s.pathLocked(LogExtension))
	if err != nil {
		return fmt.Errorf("stat segment %d: %w", s.base, err)
	}
	t := info.ModTime()
	s.modTime.Store(&t)
	return nil
}

// Rename changes the suffix of all files of the segment ("", ".cleaned", ".swap", ".deleted"). It
// does not sync the directory, because a swap renames several segments. After an error some files
// may have the new name; a repeated Rename completes the change.
//
// The files stay open during the rename, because concurrent readers must not be disturbed. With the
// suffix "" they may be closed later and reopened by name. With another suffix they stay open:
// another segment that is replaced or deleted later may use the same name while a reader still
// reads this segment.
func (s *Segment) Rename(suffix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.keepLocked(); err != nil {
		return fmt.Errorf("rename segment %d: %w", s.base, err)
	}
	if err := s.renameFiles(s.mu.suffix, suffix); err != nil {
		return err
	}
	s.mu.suffix = suffix
	if suffix == "" {
		s.releaseLocked()
	}
	return nil
}

// keepLocked opens all files of the segment and keeps them open. If a file cannot be opened and the
// suffix is "", it releases all files again. Otherwise a process without free file descriptors
// would keep open the files of every segment that it failed to rename.
func (s *Segment) keepLocked() error {
	for _, file := range s.filesLocked() {
		if err := file.Keep(); err != nil {
			if s.mu.suffix == "" { // with another suffix the files must stay open
				s.releaseLocked()
			}
			return err
		}
	}
	return nil
}

// releaseLocked reverts keepLocked: the files may be closed, and reopened under their current
// names.
func (s *Segment) releaseLocked() {
	s.data.Release(s.pathLocked(LogExtension))
	s.offsets.file.Release(s.pathLocked(IndexExtension))
	s.times.file.Release(s.pathLocked(TimeIndexExtension))
	if s.txns.file != nil {
		s.txns.file.Release(s.pathLocked(TxnIndexExtension))
	}
}

// filesLocked returns the files of the segment, the data file first.
func (s *Segment) filesLocked() []*vfs.Handle {
	files := []*vfs.Handle{s.data, s.offsets.file, s.times.file}
	if s.txns.file != nil {
		files = append(files, s.txns.file)
	}
	return files
}

// Pin opens all files of the segment and keeps them open until unpin is called.
func (s *Segment) Pin() (unpin func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinLocked()
}

// pinLocked opens all files of the segment and keeps them open until unpin is called. Callers use
// it before a change whose failure would break the segment. A lack of file descriptors then causes
// a harmless failure before the change.
func (s *Segment) pinLocked() (unpin func(), err error) { return pinAll(s.filesLocked()) }

// pinAll opens files and keeps them open until unpin is called.
func pinAll(files []*vfs.Handle) (unpin func(), err error) {
	for i, file := range files {
		if _, err := file.Pin(); err != nil {
			unpinAll(files[:i])
			return nil, err
		}
	}
	return func() { unpinAll(files) }, nil
}

func unpinAll(files []*vfs.Handle) {
	for _, file := range files {
		file.Unpin()
	}
}

// Freeze prevents any later open of the segment's files by name, because the directory is about to
// belong to another log. Pinned files stay readable.
func (s *Segment) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range s.filesLocked() {
		file.Freeze()
	}
}

// extensions returns the extensions of the files that this segment has, except the optional files.
func (s *Segment) extensions() []string {
	if s.txns.file == nil {
		return extensions[:len(extensions)-1]
	}
	return extensions
}

// Remove deletes all files of the segment, which no other Segment may have open. Open files can
// still be read until Close, which must still be called. Remove does not sync the directory.
func (s *Segment) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.removed = true
	return removeFiles(s.fsys, s.dir, s.base, s.mu.suffix, s.extensions())
}

// Abandon makes Close write and sync nothing, because the directory will be deleted.
func (s *Segment) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.removed = true
}

// Close syncs everything that is not durable and closes the files. It syncs nothing if the segment
// is broken, removed or abandoned.
func (s *Segment) Close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.mu.broken == nil && !s.mu.removed {
		err = s.finishLocked()
	}
	if err = errors.Join(err, closeAll(s.data, s.offsets.file, s.times.file,
		s.txns.file)); err != nil {
		return fmt.Errorf("close segment %d: %w", s.base, err)
	}
	return nil
}

// closeAll closes all files that are not nil, even after an error.
func closeAll(files ...*vfs.Handle) error {
	var failed []error
	for _, file := range files {
		if file != nil {
			failed = append(failed, file.Close())
		}
	}
	return errors.Join(failed...)
}
