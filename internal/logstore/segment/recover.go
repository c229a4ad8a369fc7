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

// Recover opens a segment after an unclean stop: it checks every batch (length, CRC, ascending offsets), truncates at the
// first bad one, rebuilds the indexes, and calls visit (may be nil) for each good batch. The transaction index is empty then: it is the
// log's to make anew (ResetAborted). What it returns is durable, but on a full disk, where indexes wait in memory, and a tail for room to be written again: Unfinished tells.
//
// Batches that end at or below Config.Synced were known to be on the disk; what lies behind is written again before it is synced, as it may
// be in the page cache only (unproven).
// An error of the disk or of visit is returned, and cuts nothing.
func Recover(fsys vfs.FS, dir string, base int64, cfg Config, visit func(record.Batch) error) (*Segment, Recovered, error) {
	s := newSegment(fsys, dir, base, cfg)
	found, err := s.recover(visit)
	if err != nil {
		err = fmt.Errorf("recover segment %s: %w", filepath.Join(dir, Name(base, LogExtension, "")), errors.Join(err, s.abandon()))
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
	// The removal is synced with the names of the other indexes.
	err = s.fsys.Remove(s.pathLocked(TxnIndexExtension))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Recovered{}, err
	}
	if err := s.writeIndexes(v); err != nil {
		return Recovered{}, err
	}
	s.mu.named = !s.mu.indexed // writeIndexes has synced the directory, if it could write
	return found, s.statLocked()
}

// checkBatches counts the good batches at the beginning of the file into the view.
func (s *Segment) checkBatches(v *view, size int64, visit func(record.Batch) error) (found Recovered, err error) {
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
