package segment

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// Sync makes the batches durable that were appended before the call. It may run concurrently with
// Append and does not block it during the sync.
//
// Index entries are written, but not synced: after an unclean stop Recover rebuilds the indexes of
// a segment that was not sealed, so syncing them would triple the cost of a flush for nothing.
//
// If everything is synced, Sync opens no file and causes no I/O.
func (s *Segment) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if s.mu.broken != nil {
		defer s.mu.Unlock()
		return s.mu.broken
	}
	// A failed flush loses nothing: the entries stay in memory, and Seal and Close, which require
	// them to be written, report the failure.
	_ = s.flushIndexesLocked()
	if err := s.rewriteLocked(); err != nil {
		defer s.mu.Unlock()
		return err // no data is lost: the segment is not broken, and the next Sync may succeed
	}
	named := s.mu.named
	if !s.mu.written && named {
		defer s.mu.Unlock()
		return nil // an earlier sync succeeded
	}
	// Open the file first: a lack of file descriptors is not a failed sync.
	if _, err := s.data.Pin(); err != nil {
		defer s.mu.Unlock()
		return fmt.Errorf("sync segment %d: %w", s.base, err)
	}
	defer s.data.Unpin()
	s.mu.written = false // before the sync: concurrent appends count as unsynced
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
// pages that it failed to write, and a second sync would nevertheless succeed.
func (s *Segment) breakLocked(err error) error {
	s.mu.broken = fmt.Errorf("segment %d is unusable since a sync failed: %w", s.base, err)
	return s.mu.broken
}

// Broken returns the error that broke the segment; nil if the segment is not broken. A broken
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

// Seal writes the last entry of the time index and syncs all files. Afterwards Append fails; only
// Truncate makes the segment writable again. A segment that did not change since it was opened
// needs no sync.
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

// finishLocked writes and syncs everything, so that Open finds complete data and indexes. The
// caller holds mu during the syncs, which blocks no append: none is waiting.
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
	for _, file := range s.filesLocked() {
		if err := file.Sync(); err != nil {
			return s.breakLocked(err)
		}
	}
	if !s.mu.named {
		if err := s.fsys.SyncDir(s.dir); err != nil {
			return s.breakLocked(err)
		}
	}
	s.mu.named, s.mu.written, s.mu.indexed = true, false, false
	return nil
}

// NeedsSeal reports whether Seal has anything to do. If so, a start after a crash must not treat
// the segment as sealed.
func (s *Segment) NeedsSeal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needsSealLocked()
}

// Unsynced reports whether data, or the names of the files, are not durable.
func (s *Segment) Unsynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.mu.mustRewrite.empty() || s.mu.written || !s.mu.named
}

// needsSealLocked reports whether Open would miss anything, or would treat unsynced data as
// durable: data, a name or index entries that are not synced, entries that are only in memory, or
// the largest timestamp, which belongs into the last entry of the time index.
func (s *Segment) needsSealLocked() bool {
	v := s.view.Load()
	return !s.mu.mustRewrite.empty() || s.mu.written || s.mu.indexed || !s.mu.named ||
		v.unwritten() > 0 || v.maxTimestamp > v.lastTime()
}

// SetModTime sets the modification time of the data file. A cleaned segment gets the modification
// time of its last source.
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

// loadModTimeLocked loads the modification time of the data file, so that ModTime causes no I/O.
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
// may have the new name; a repeated Rename completes it.
//
// The files are kept open during the rename, so that concurrent readers find them. Under their
// final name they may be closed and reopened. Under another name they stay open, because the next
// segment that is replaced or deleted may get that name before the last reader has finished.
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

// keepLocked opens all files of the segment and keeps them open. If a file cannot be opened,
// keepLocked releases the files that were not kept before: otherwise a process without free file
// descriptors would keep the files of every segment that it failed to rename.
func (s *Segment) keepLocked() error {
	for _, file := range s.filesLocked() {
		if err := file.Keep(); err != nil {
			if s.mu.suffix == "" { // other suffixes require them to stay open
				s.releaseLocked()
			}
			return err
		}
	}
	return nil
}

// releaseLocked reverts keepLocked, under the current names of the files.
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

// pinLocked opens all files of the segment, before a change whose failure would break the segment.
// So a lack of file descriptors does not break the segment.
func (s *Segment) pinLocked() (unpin func(), err error) {
	files := s.filesLocked()
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

// Freeze prevents that files are opened under their names from now on, because the directory is
// about to belong to another log. Pinned files stay readable.
func (s *Segment) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range s.filesLocked() {
		file.Freeze()
	}
}

// extensions returns the extensions of the segment's files.
func (s *Segment) extensions() []string {
	if s.txns.file == nil {
		return extensions[:len(extensions)-1]
	}
	return extensions
}

// Remove deletes all files of the segment, which must not be open elsewhere. Reads of open files
// continue until Close, which must still be called. The directory is not synced.
func (s *Segment) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.removed = true
	return removeFiles(s.fsys, s.dir, s.base, s.mu.suffix, s.extensions())
}

// Close syncs everything that is not durable, and closes the files. A broken or removed segment is
// only closed.
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

// closeAll closes all files that are not nil. After an error it continues with the next file.
func closeAll(files ...*vfs.Handle) error {
	var failed []error
	for _, file := range files {
		if file != nil {
			failed = append(failed, file.Close())
		}
	}
	return errors.Join(failed...)
}
