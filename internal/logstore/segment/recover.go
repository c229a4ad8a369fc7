package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Recovered is what Recover found.
type Recovered struct {
	Batches        int64
	TruncatedBytes int64 // > 0: everything behind the first bad batch was cut off
	Cause          error // why, nil if nothing was cut
}

// Recover opens a segment after an unclean stop: it checks every batch (length, CRC, ascending
// offsets), truncates at the first bad one, rebuilds the indexes, and calls visit (may be nil) for
// each good batch. The transaction index is empty then: it is the log's to make anew
// (ResetAborted). Data and names are durable when it returns, but on a full disk, where a tail
// waits for room to be written again: Unsynced tells. The indexes are not: as those that Sync
// writes they are synced by Seal or Close, and until then made anew by the next Recover. A start
// after a crash comes here with each log's active segment, and to sync them was most of its time.
//
// Batches that end at or below Config.Synced were known to be on the disk; what lies behind is
// written again before it is synced, as it may be in the page cache only (unproven). An error of
// the disk or of visit is returned, and cuts nothing.
func Recover(fsys vfs.FS, dir string, base int64, cfg Config,
	visit func(record.Batch) error) (*Segment, Recovered, error) {
	s := newSegment(fsys, dir, base, cfg)
	found, err := s.recover(visit)
	if err != nil {
		err = fmt.Errorf("recover segment %s: %w", filepath.Join(dir, Name(base, LogExtension, "")),
			errors.Join(err, s.abandon()))
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
			s.mu.unproven.from = v.size + int64(len(b))
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
	// The data first: a batch that was read from the page cache may never have reached the disk.
	s.mu.unproven.to = v.size
	if err := s.rewriteLocked(); err != nil && !isFull(err) {
		return Recovered{}, err
	}
	if err := s.data.Sync(); err != nil {
		return Recovered{}, err
	}
	s.mu.written = false
	// A segment of which something was synced has its name since. Every other change of the
	// directory has to be synced here.
	removed := s.fsys.Remove(s.pathLocked(TxnIndexExtension))
	if removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		return Recovered{}, removed
	}
	made, err := s.layIndexes(v)
	if err != nil {
		return Recovered{}, err
	}
	if made || removed == nil || s.cfg.Synced <= s.base {
		if err := s.fsys.SyncDir(s.dir); err != nil {
			return Recovered{}, err
		}
	}
	s.mu.named = true
	return found, s.statLocked()
}

// checkBatches counts the good batches at the beginning of the file into the view.
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
	case visitFailed != nil: // not a fault of the file, even if it says that something is corrupt
		return found, visitFailed
	case errors.Is(err, record.ErrCorrupt):
		found.Cause, err = err, nil
	}
	return found, err
}

// layIndexes makes the index files those of a view that has all its entries in memory, without a
// sync. made tells that a name is new. On a full disk the entries stay in memory: see writeIndexes.
func (s *Segment) layIndexes(v view) (made bool, err error) {
	v.addTime()
	s.mu.indexed = true
	var madeTimes bool
	s.offsets.file, made, err = s.layIndex(IndexExtension, s.offsets.encode(v.offsets.tail))
	if err == nil {
		s.times.file, madeTimes, err = s.layIndex(TimeIndexExtension, s.times.encode(v.times.tail))
	}
	switch {
	case isFull(err):
		return true, s.emptyIndexes(v)
	case err != nil:
		return false, err
	}
	v.offsets = entries[OffsetEntry]{written: v.offsets.count(), last: v.offsets.last}
	v.times = entries[TimeEntry]{written: v.times.count(), last: v.times.last}
	s.view.Store(&v)
	return made || madeTimes, nil
}

// layIndex makes a file hold the content and nothing else. What is there already is written all the
// same: it may be in the page cache only, its write-back have failed, and the sync of Seal would
// not do it again (see unproven).
func (s *Segment) layIndex(extension string, content []byte) (file *vfs.Handle, made bool,
	err error) {
	name := s.pathLocked(extension)
	if file, err = s.cfg.Handles.OpenReadWrite(name); errors.Is(err, fs.ErrNotExist) {
		made = true
		file, err = s.cfg.Handles.Create(name)
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		return file, made, fmt.Errorf("write index: %w", err)
	}
	if err := file.Truncate(int64(len(content))); err != nil {
		return file, made, fmt.Errorf("truncate index: %w", err)
	}
	return file, made, nil
}
