package segment

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// Sync makes durable what was appended before the call. It may run beside Append, and does not hold
// it up while the disk works.
//
// Index entries are handed to the operating system only: after an unclean stop the indexes of a
// segment that was not sealed are made anew (Recover), so syncing them with every flush would
// triple its cost for nothing.
//
// Without anything to sync it opens no file, and asks nothing of the disk.
func (s *Segment) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if s.mu.broken != nil {
		defer s.mu.Unlock()
		return s.mu.broken
	}
	// A flush that fails loses nothing: the entries stay in memory, and Seal or Close, which need
	// them written, report it.
	_ = s.flushIndexesLocked()
	if err := s.rewriteLocked(); err != nil {
		defer s.mu.Unlock()
		return err // nothing is lost by it: Broken tells that the next Sync may succeed
	}
	named := s.mu.named
	if !s.mu.written && named {
		defer s.mu.Unlock()
		return nil // the sync before this one has ended, and did not fail
	}
	// Open before: that there is no file left to open is no failed sync.
	if _, err := s.data.Pin(); err != nil {
		defer s.mu.Unlock()
		return fmt.Errorf("sync segment %d: %w", s.base, err)
	}
	defer s.data.Unpin()
	s.mu.written = false // before the sync: what is appended beside it counts as unsynced
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

// breakLocked notes that a sync failed. The kernel may have dropped the pages it could not write,
// and a second sync would report success all the same: the segment must not be trusted any more.
func (s *Segment) breakLocked(err error) error {
	s.mu.broken = fmt.Errorf("segment %d is unusable since a sync failed: %w", s.base, err)
	return s.mu.broken
}

// Broken tells why the segment cannot be changed any more; nil while it can.
func (s *Segment) Broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.broken
}

// flushIndexesLocked writes the index entries that are in memory only.
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

// Seal ends writing: the last time index entry is written, all is synced. Only Truncate makes the
// segment writable again. A segment to which nothing was done since it was opened is in order, and
// costs no sync.
func (s *Segment) Seal() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.finishLocked(); err != nil {
		return fmt.Errorf("seal segment %d: %w", s.base, err)
	}
	s.mu.sealed = true
	return s.statLocked()
}

// finishLocked writes and syncs everything, so that Open finds data and indexes in order. It holds
// the mutex over the syncs: there is no append to hold up.
func (s *Segment) finishLocked() error {
	if s.mu.broken != nil {
		return s.mu.broken
	}
	if !s.unfinishedLocked() {
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

// Unfinished tells whether Seal has anything to do: then a start after a crash must not take the
// segment for one that is sealed.
func (s *Segment) Unfinished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfinishedLocked()
}

// Unsynced tells whether data, or the segment's name, is not durable.
func (s *Segment) Unsynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.unproven.from < s.mu.unproven.to || s.mu.written || !s.mu.named
}

// unfinishedLocked tells whether Open would miss something, or take something for durable that is
// not: data, a name or index entries that are not synced, entries that are in memory only, or the
// largest timestamp, which the last entry of the time index is to tell.
func (s *Segment) unfinishedLocked() bool {
	v := s.view.Load()
	return s.mu.unproven.from < s.mu.unproven.to || s.mu.written || s.mu.indexed || !s.mu.named ||
		v.unwritten() > 0 || v.maxTimestamp > v.lastTime()
}

// SetModTime sets the data file's time: a cleaned segment takes that of the last one it was made
// from.
func (s *Segment) SetModTime(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fsys.Chtimes(s.pathLocked(LogExtension), t); err != nil {
		return fmt.Errorf("set time of segment %d: %w", s.base, err)
	}
	// The time is part of what Sync makes durable; the next Sync or Close does.
	s.mu.written = true
	s.modTime.Store(&t)
	return nil
}

// statLocked notes the data file's time, which ModTime gives without asking the disk.
func (s *Segment) statLocked() error {
	info, err := s.fsys.Stat(s.pathLocked(LogExtension))
	if err != nil {
		return fmt.Errorf("stat segment %d: %w", s.base, err)
	}
	t := info.ModTime()
	s.modTime.Store(&t)
	return nil
}

// Rename gives all files of the segment another suffix ("", ".cleaned", ".swap", ".deleted"). The
// directory is not synced: who swaps segments renames several. After an error some files may have
// the new name; the same Rename again ends it.
//
// The files are open over it, so that a reader beside it finds them. Under their final name they
// may be closed and opened again; under another one they stay open, as the next segment that is
// replaced or deleted may take that name before the last reader is gone.
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

// keepLocked opens all files of the segment and keeps them open, or, when one cannot be opened,
// none that was not kept before: a process that is out of files shall not have those of each
// segment that it failed to rename open for good.
func (s *Segment) keepLocked() error {
	for _, file := range s.filesLocked() {
		if err := file.Keep(); err != nil {
			if s.mu.suffix == "" { // else they are kept for the suffix that they have
				s.releaseLocked()
			}
			return err
		}
	}
	return nil
}

// releaseLocked ends keepLocked, by the names that the files have now.
func (s *Segment) releaseLocked() {
	s.data.Release(s.pathLocked(LogExtension))
	s.offsets.file.Release(s.pathLocked(IndexExtension))
	s.times.file.Release(s.pathLocked(TimeIndexExtension))
	if s.txns.file != nil {
		s.txns.file.Release(s.pathLocked(TxnIndexExtension))
	}
}

// filesLocked are the files that the segment has, the data first.
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

// pinLocked opens all files that the segment has. It comes before a change after whose failure the
// segment is broken: that there is no file left to open is none.
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

// Freeze says that the directory is about to be another one's: no file is opened under its name any
// more. Who has pinned one reads on.
func (s *Segment) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range s.filesLocked() {
		file.Freeze()
	}
}

// extensions are those of the files that the segment has.
func (s *Segment) extensions() []string {
	if s.txns.file == nil {
		return extensions[:len(extensions)-1]
	}
	return extensions
}

// Remove deletes all files of the segment; they must not be open elsewhere. Close must still be
// called; reads of files that are open go on until then. The directory is not synced.
func (s *Segment) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.removed = true
	return removeFiles(s.fsys, s.dir, s.base, s.mu.suffix, s.extensions())
}

// Close makes everything durable that is not, and closes the files. A broken or removed segment is
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

// closeAll closes all files that are open, also when one fails.
func closeAll(files ...*vfs.Handle) error {
	var failed []error
	for _, file := range files {
		if file != nil {
			failed = append(failed, file.Close())
		}
	}
	return errors.Join(failed...)
}
