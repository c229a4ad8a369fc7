package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Recovered is the result of Recover.
type Recovered struct {
	Batches        int64
	TruncatedBytes int64 // from the first invalid batch on
	Cause          error // of the truncation, nil if nothing was truncated
}

// Recover opens a segment after an unclean stop: it checks every batch (length, CRC, ascending
// offsets), truncates at the first invalid one, rebuilds the indexes, and calls visit (may be nil)
// for each valid batch. The transaction index is empty afterwards: the log rebuilds it
// (ResetAborted).
//
// Data and names are durable when Recover returns, except on a full disk, where a tail cannot be
// rewritten (see Unsynced). The indexes are not synced: Seal or Close syncs them. After a crash
// before that, Recover rebuilds the indexes again. A start after a crash recovers the active
// segment of every log, and syncing the indexes took most of its time.
//
// Batches that end at or below Config.Synced are known to be on the disk. The bytes after them are
// rewritten before they are synced, because they may be only in the page cache (see
// mu.mustRewrite). After an error of the disk or of visit, nothing is truncated.
func Recover(fsys vfs.FS, dir string, base int64, cfg Config,
	visit func(record.Batch) error) (*Segment, Recovered, error) {
	s := newSegment(fsys, dir, base, cfg)
	found, err := s.recover(visit)
	if err != nil {
		err = fmt.Errorf("recover segment %s: %w", filepath.Join(dir, Name(base, LogExtension, "")),
			errors.Join(err, s.closeFiles()))
		return nil, Recovered{}, err
	}
	return s, found, nil
}

func (s *Segment) recover(visit func(record.Batch) error) (Recovered, error) {
	size, err := s.openData()
	if err != nil {
		return Recovered{}, err
	}
	v := emptyView(s.base)
	found, err := s.checkBatches(&v, size, func(b record.Batch) error {
		if b.NextOffset() <= s.cfg.Synced {
			s.mu.mustRewrite.from = v.size + int64(len(b))
		}
		if visit == nil {
			return nil
		}
		return visit(b)
	})
	if err != nil {
		return Recovered{}, err
	}
	if found.TruncatedBytes = size - v.size; found.TruncatedBytes > 0 {
		if err := s.data.Truncate(v.size); err != nil {
			return Recovered{}, err
		}
	}
	// Make the data durable first: a batch that was read from the page cache may not be on the
	// disk.
	s.mu.mustRewrite.to = v.size
	if err := s.rewriteLocked(); err != nil && !isFull(err) {
		return Recovered{}, err
	}
	if err := s.data.Sync(); err != nil {
		return Recovered{}, err
	}
	s.mu.written = false
	// The names of a segment with synced data are durable. Every other change of the directory has
	// to be synced here.
	removed := s.fsys.Remove(s.pathLocked(TxnIndexExtension))
	if removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		return Recovered{}, removed
	}
	created, err := s.overwriteIndexes(v)
	if err != nil {
		return Recovered{}, err
	}
	if created || removed == nil || s.cfg.Synced <= s.base {
		if err := s.fsys.SyncDir(s.dir); err != nil {
			return Recovered{}, err
		}
	}
	s.mu.named = true
	return found, s.loadModTimeLocked()
}

// checkBatches adds the valid batches at the start of the file to the view.
func (s *Segment) checkBatches(v *view, size int64,
	visit func(record.Batch) error) (found Recovered, err error) {
	var visitFailed error
	err = s.scan(size, 0, func(position int64, b record.Batch) error {
		if err := b.CheckCRC(); err != nil {
			return fmt.Errorf("batch at position %d: %w", position, err)
		}
		if err := v.check(b, len(b)); err != nil {
			return err
		}
		if visitFailed = visit(b); visitFailed != nil {
			return errStop
		}
		v.add(b, len(b), s.cfg.IndexIntervalBytes)
		found.Batches++
		return nil
	})
	switch {
	// the error is not a fault of this file, even if it wraps record.ErrCorrupt
	case visitFailed != nil:
		return found, visitFailed
	case errors.Is(err, record.ErrCorrupt):
		found.Cause, err = err, nil
	}
	return found, err
}

// overwriteIndexes writes the entries of a view that has all of them in memory to the index files,
// without a sync. created reports whether it created a file. On a full disk the entries stay in
// memory (see writeIndexes).
func (s *Segment) overwriteIndexes(v view) (created bool, err error) {
	v.addTime()
	s.mu.indexed = true
	var createdTimes bool
	s.offsets.file, created, err = s.overwriteIndex(IndexExtension,
		s.offsets.encode(v.offsets.tail))
	if err == nil {
		s.times.file, createdTimes,
			err = s.overwriteIndex(TimeIndexExtension, s.times.encode(v.times.tail))
	}
	switch {
	case isFull(err):
		return true, s.createEmptyIndexes(v)
	case err != nil:
		return false, err
	}
	v.offsets = entries[OffsetEntry]{written: v.offsets.count(), last: v.offsets.last}
	v.times = entries[TimeEntry]{written: v.times.count(), last: v.times.last}
	s.view.Store(&v)
	return created || createdTimes, nil
}

// overwriteIndex replaces the content of an index file. It writes unchanged bytes too: they may be
// only in the page cache after a failed write-back, which the sync of Seal would not repeat (see
// mu.mustRewrite).
func (s *Segment) overwriteIndex(extension string, content []byte) (file *vfs.Handle, created bool,
	err error) {
	name := s.pathLocked(extension)
	if file, err = s.cfg.Handles.OpenReadWrite(name); errors.Is(err, fs.ErrNotExist) {
		created = true
		file, err = s.cfg.Handles.Create(name)
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		return file, created, fmt.Errorf("write index: %w", err)
	}
	if err := file.Truncate(int64(len(content))); err != nil {
		return file, created, fmt.Errorf("truncate index: %w", err)
	}
	return file, created, nil
}
