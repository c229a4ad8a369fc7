package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// errIndex reports that an index file is missing or wrong. The package handles it by rebuilding the
// indexes, and never returns it.
var errIndex = errors.New("index does not match the data file")

// Create creates an empty segment. suffix is "", ".cleaned" or ".swap". Existing files with the
// same names are truncated. The names become durable with the first Sync or with Seal.
func Create(fsys vfs.FS, dir string, base int64, suffix string, cfg Config) (*Segment, error) {
	s := newSegment(fsys, dir, base, cfg)
	s.mu.suffix = suffix
	for _, target := range []struct {
		extension string
		file      **vfs.Handle
	}{{LogExtension, &s.data}, {IndexExtension, &s.offsets.file},
		{TimeIndexExtension, &s.times.file}} {
		file, err := s.cfg.Handles.Create(s.pathLocked(target.extension))
		if err != nil {
			return nil, fmt.Errorf("create segment %d: %w", base,
				errors.Join(err, s.closeFiles(), RemoveFiles(fsys, dir, base, suffix)))
		}
		*target.file = file
	}
	// The index files are written after a mebibyte of data, or by Seal. Until then the segment
	// needs only one descriptor.
	s.offsets.file.CloseUnused()
	s.times.file.CloseUnused()
	empty := emptyView(base)
	s.view.Store(&empty)
	if err := s.loadModTimeLocked(); err != nil {
		return nil, errors.Join(err, s.closeFiles(), RemoveFiles(fsys, dir, base, suffix))
	}
	return s, nil
}

// newSegment returns a segment without files or a view.
func newSegment(fsys vfs.FS, dir string, base int64, cfg Config) *Segment {
	if cfg.Handles == nil {
		cfg.Handles = vfs.NewHandles(fsys, 0)
	}
	return &Segment{fsys: fsys, dir: dir, base: base, cfg: cfg.withDefaults(),
		offsets: offsetIndex(nil), times: timeIndex(nil),
		txns: txnIndex(nil)}
}

// closeFiles closes the files of a segment that could not be created or opened.
func (s *Segment) closeFiles() error {
	return closeAll(s.data, s.offsets.file, s.times.file, s.txns.file)
}

// Open opens a segment that was closed cleanly or sealed, and rebuilds missing or wrong index
// files. It reads only the ends of the files. If the data file is not a sequence of batches, the
// error wraps record.ErrCorrupt, and the caller then uses Recover. If the data file contains
// records in another message format, the error wraps record.ErrFormat instead.
func Open(fsys vfs.FS, dir string, base int64, cfg Config) (*Segment, error) {
	s := newSegment(fsys, dir, base, cfg)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open segment %s: %w",
			filepath.Join(dir, Name(base, LogExtension, "")), errors.Join(err, s.closeFiles()))
	}
	return s, nil
}

// open loads the index files. It walks over the whole data file only if the index files do not
// match the data file.
func (s *Segment) open() error {
	size, err := s.openData()
	if err != nil {
		return err
	}
	if err = s.openIndexes(); err == nil {
		err = s.loadView(size)
	}
	// A wrong position in an index entry can cause ErrCorrupt, because a walk over the headers then
	// reads garbage. So only rebuild, which walks from the start of the file, can determine that
	// the data is corrupt.
	if errors.Is(err, errIndex) || errors.Is(err, record.ErrCorrupt) {
		err = s.rebuild(size)
	}
	if err != nil {
		return err
	}
	v := *s.view.Load()
	if err := s.openTxnIndex(&v); err != nil {
		return err
	}
	s.view.Store(&v)
	s.mu.named = !s.mu.indexed // all files existed, unless createEmptyIndexes has created indexes
	return s.loadModTimeLocked()
}

// openData opens the data file. It opens the file for writing too, because the segment may be the
// active one.
func (s *Segment) openData() (size int64, err error) {
	if s.data, err = s.cfg.Handles.OpenReadWrite(s.pathLocked(LogExtension)); err != nil {
		return 0, err
	}
	return s.data.Size()
}

// openIndexes opens the index files. First it closes index files that are already open, because
// rebuild replaces the files under the same names.
func (s *Segment) openIndexes() error {
	if err := closeAll(s.offsets.file, s.times.file); err != nil {
		return err
	}
	var failed [2]error
	s.offsets.file, failed[0] = s.openIndex(IndexExtension)
	s.times.file, failed[1] = s.openIndex(TimeIndexExtension)
	return errors.Join(failed[0], failed[1])
}

// openIndex opens one index file. It fails with errIndex if the file does not exist.
func (s *Segment) openIndex(extension string) (*vfs.Handle, error) {
	file, err := s.cfg.Handles.OpenReadWrite(s.pathLocked(extension))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	return file, err
}

// loadView builds the view from the index files and from the batch headers after the last index
// entry. It fails with errIndex if the index files do not match the data file
// (docs/internals/format/index-files.md lists the checks).
func (s *Segment) loadView(size int64) error {
	v := emptyView(s.base)
	var failed [2]error
	v.offsets, failed[0] = s.offsets.load(func(a, b OffsetEntry) bool {
		return a.Relative < b.Relative && a.Position < b.Position
	})
	v.times, failed[1] = s.times.load(func(a, b TimeEntry) bool {
		return a.Relative < b.Relative && a.Timestamp < b.Timestamp
	})
	if err := errors.Join(failed[0], failed[1]); err != nil {
		return err
	}
	if err := s.loadTail(&v, size); err != nil {
		return err
	}
	if err := s.checkTimes(&v); err != nil {
		return err
	}
	s.view.Store(&v)
	return nil
}

// load returns the list of all entries of an index file. It reads and checks only the last two
// entries.
func (x index[E]) load(ascend func(a, b E) bool) (entries[E], error) {
	size, err := x.file.Size()
	if err != nil {
		return entries[E]{}, err
	}
	if size%int64(x.entryBytes) != 0 {
		return entries[E]{}, fmt.Errorf("%w: its size of %d bytes is not a multiple of the entry size", errIndex,
			size)
	}
	count := int(size / int64(x.entryBytes))
	if count == 0 {
		return entries[E]{}, nil
	}
	ends, err := x.read(max(0, count-2), count)
	if err != nil {
		return entries[E]{}, err
	}
	if len(ends) == 2 && !ascend(ends[0], ends[1]) {
		return entries[E]{}, fmt.Errorf("%w: the last entries do not ascend", errIndex)
	}
	return entries[E]{written: count, last: ends[len(ends)-1]}, nil
}

// loadTail completes a view that has index entries. It reads the first batch's header, and the
// headers from the last indexed batch up to size.
func (s *Segment) loadTail(v *view, size int64) error {
	if size == 0 {
		if v.offsets.count()+v.times.count() > 0 {
			return fmt.Errorf("%w: it has entries, but the data file has no batch", errIndex)
		}
		return nil
	}
	whole := view{base: s.base, size: size}
	first, err := s.headerIn(&whole, 0)
	if err != nil {
		return err
	}
	if v.times.count() > 0 {
		v.maxTimestamp, v.maxTimestampOffset = v.times.last.Timestamp,
			s.base+int64(v.times.last.Relative)
	}
	indexed := v.offsets.count()
	if indexed > 0 {
		header, err := s.headerIn(&whole, int64(v.offsets.last.Position))
		if err != nil {
			return fmt.Errorf("%w: its last entry does not point at a batch: %w", errIndex,
				noEOF(err))
		}
		if header.LastOffset() != s.base+int64(v.offsets.last.Relative) ||
			header.MaxTimestamp() > v.lastTime() {
			return fmt.Errorf("%w: the batch of its last entry has another offset, or a timestamp "+
				"above that of the last time index entry", errIndex)
		}
		v.size, v.next = header.Position, header.BaseOffset()
	}
	if err := s.count(v, size); err != nil {
		return err
	}
	v.firstTimestamp = first.MaxTimestamp()
	if v.offsets.count() != indexed {
		return fmt.Errorf("%w: it lacks %d entries at its end", errIndex,
			v.offsets.count()-indexed)
	}
	return nil
}

// count adds the batches between v.size and size to the view. It reads only headers. It fails with
// record.ErrCorrupt at the first batch that cannot follow the previous batch.
func (s *Segment) count(v *view, size int64) error {
	whole := view{base: s.base, size: size}
	return s.walk(&whole, v.size, func(h Header) error {
		if err := v.check(h.Batch, h.SizeBytes); err != nil {
			return err
		}
		v.add(h.Batch, h.SizeBytes, s.cfg.IndexIntervalBytes)
		return nil
	})
}

// checkTimes checks that the last entry of the time index matches a batch.
func (s *Segment) checkTimes(v *view) error {
	if v.times.count() == 0 {
		if v.offsets.count() > 0 {
			return fmt.Errorf("%w: the time index is empty", errIndex)
		}
		return nil
	}
	entry := v.times.last
	offset := s.base + int64(entry.Relative)
	position, err := s.position(v, offset)
	if err != nil {
		return err
	}
	header, err := s.headerIn(v, position)
	if errors.Is(err, io.EOF) || err == nil &&
		(header.MaxTimestamp() != entry.Timestamp || header.BaseOffset() > offset) {
		return fmt.Errorf("%w: no batch at the offset of the last time entry has its timestamp",
			errIndex)
	}
	return err
}

// rebuild rebuilds the index files from all batch headers in the data file. It does not verify
// checksums: data below the recovery point was verified when it was written. Reading all data would
// make the loss of an index as expensive as a crash.
func (s *Segment) rebuild(size int64) error {
	v := emptyView(s.base)
	if err := s.count(&v, size); err != nil {
		if errors.Is(err, record.ErrCorrupt) {
			other := record.FindOtherFormat(s.data, v.size, size, v.next, false)
			err = cmp.Or(other, err)
		}
		return err
	}
	return s.writeIndexes(v)
}

// writeIndexes replaces the index files by the entries of a view whose entries are all in memory.
// On a full disk the entries stay in memory, and the segment is opened nevertheless. Otherwise the
// log could not be opened, and retention could not delete segments to free space.
func (s *Segment) writeIndexes(v view) error {
	v.addTime()
	err := vfs.WriteFileAtomic(s.fsys, s.pathLocked(IndexExtension),
		s.offsets.encode(v.offsets.tail))
	if err == nil {
		err = vfs.WriteFileAtomic(s.fsys, s.pathLocked(TimeIndexExtension),
			s.times.encode(v.times.tail))
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return s.createEmptyIndexes(v)
	case err != nil:
		return err
	}
	v.offsets = entries[OffsetEntry]{written: v.offsets.count(), last: v.offsets.last}
	v.times = entries[TimeEntry]{written: v.times.count(), last: v.times.last}
	s.view.Store(&v)
	return s.openIndexes()
}

// createEmptyIndexes creates empty index files and keeps all entries of the view in memory until a
// later flush writes them. If the process ends before that, the next start finds that the entries
// are missing and rebuilds the files.
func (s *Segment) createEmptyIndexes(v view) error {
	if err := closeAll(s.offsets.file, s.times.file); err != nil {
		return err
	}
	s.offsets.file, s.times.file = nil, nil
	for _, target := range []struct {
		extension string
		file      **vfs.Handle
	}{{IndexExtension, &s.offsets.file}, {TimeIndexExtension, &s.times.file}} {
		file, err := s.cfg.Handles.Create(s.pathLocked(target.extension))
		if err != nil {
			return err
		}
		*target.file = file
	}
	s.mu.indexed = true
	s.view.Store(&v)
	return nil
}
