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
	TruncatedBytes int64 // size of the removed data, which begins with the first invalid batch
	Cause          error // reason for the truncation; nil if nothing was truncated
}

// Recover opens a segment after an unclean stop. It checks the length, CRC and offsets of every
// batch, truncates the segment at the first invalid batch, and rebuilds the indexes. It calls
// visit, which may be nil, for each valid batch. It deletes the transaction index, which the log
// then rebuilds by ResetAborted.
//
// Data and names are durable when Recover returns, except on a full disk, where Recover cannot
// rewrite the end of the data (see Unsynced). Recover does not sync the indexes; Seal or Close
// does. If the process stops before that, the next Recover rebuilds the indexes again. Recover
// leaves the sync to them because a start after a crash recovers the active segment of every log,
// and syncing the indexes took most of the time of such a start.
//
// Batches that end at or below Config.Synced are known to be on the disk. Later bytes are rewritten
// before they are synced, because they may be only in the page cache (see mu.mustRewrite). Recover
// truncates nothing if the disk or visit returns an error, or if records in another message format
// follow the valid batches (record.ErrFormat).
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
	// Make the data durable, because a batch that was read from the page cache may not be on the
	// disk.
	s.mu.mustRewrite.to = v.size
	if err := s.rewriteLocked(); err != nil && !isFull(err) {
		return Recovered{}, err
	}
	if err := s.data.Sync(); err != nil {
		return Recovered{}, err
	}
	s.mu.written = false
	// The names of a segment are already durable if a part of its data was synced. Otherwise the
	// directory must be synced. It must also be synced if this function has created or removed a
	// file.
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
	// A start after a crash recovers the active segment of every log at about the same time, and
	// the index files stay open until they are synced. SyncIdleIndexes syncs them later, but with
	// thousands of logs the process would run out of descriptors before that.
	if s.cfg.Handles.Full() {
		s.mu.Lock()
		err := s.syncIndexesLocked()
		s.mu.Unlock()
		if err != nil {
			return Recovered{}, err
		}
	}
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
	// visit has failed. Do not truncate, even if its error wraps record.ErrCorrupt.
	case visitFailed != nil:
		return found, visitFailed
	case errors.Is(err, record.ErrCorrupt):
		found.Cause = err
		err = record.FindOtherFormat(s.data, v.size, size, v.next, false)
	}
	return found, err
}

// overwriteIndexes writes the entries of a view, all of which are in memory, to the index files. It
// does not sync the files. created reports whether overwriteIndexes created a file. On a full disk
// the entries stay in memory (see writeIndexes).
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

// overwriteIndex replaces the content of an index file. It also writes bytes that have not changed:
// after a failed write-back these bytes may be only in the page cache, and the sync in Seal would
// not write them (see mu.mustRewrite).
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
	if size, err := file.Size(); err == nil && size == 0 && len(content) == 0 {
		file.CloseUnused() // nothing to write
		return file, created, nil
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		return file, created, fmt.Errorf("write index: %w", err)
	}
	if err := file.Truncate(int64(len(content))); err != nil {
		return file, created, fmt.Errorf("truncate index: %w", err)
	}
	return file, created, nil
}
