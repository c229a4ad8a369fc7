package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// errIndex says that an index file is missing or wrong. It never leaves this package: the answer is
// to make it anew.
var errIndex = errors.New("index does not fit the data file")

// Create makes a new, empty segment. suffix is "" or one of ".cleaned", ".swap". Files that are
// there already are emptied. The names become durable with the first Sync or with Seal.
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
				errors.Join(err, s.abandon(), RemoveFiles(fsys, dir, base, suffix)))
		}
		*target.file = file
	}
	empty := emptyView(base)
	s.view.Store(&empty)
	if err := s.statLocked(); err != nil {
		return nil, errors.Join(err, s.abandon(), RemoveFiles(fsys, dir, base, suffix))
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

// abandon closes the files of a segment that could not be made or opened.
func (s *Segment) abandon() error {
	return closeAll(s.data, s.offsets.file, s.times.file, s.txns.file)
}

// Open opens a segment that was closed in order or sealed; missing or wrong index files are
// rebuilt. It reads the ends of the files only. Data that is no row of batches is an error that
// wraps record.ErrCorrupt: then Recover is due.
func Open(fsys vfs.FS, dir string, base int64, cfg Config) (*Segment, error) {
	s := newSegment(fsys, dir, base, cfg)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open segment %s: %w",
			filepath.Join(dir, Name(base, LogExtension, "")), errors.Join(err, s.abandon()))
	}
	return s, nil
}

// open tries the index files first, and walks the whole data file only when they do not bear it
// out.
func (s *Segment) open() error {
	size, err := s.openData()
	if err != nil {
		return err
	}
	if err = s.openIndexes(); err == nil {
		err = s.loadView(size)
	}
	// A walk that starts at a wrong place finds nonsense, so only a walk from the beginning can
	// tell that the data is corrupt.
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
	s.mu.named = !s.mu.indexed // the files were there, or emptyIndexes made them
	return s.statLocked()
}

// openData opens the data file for writing too: nobody knows yet whether the segment is the active
// one.
func (s *Segment) openData() (size int64, err error) {
	if s.data, err = s.cfg.Handles.OpenReadWrite(s.pathLocked(LogExtension)); err != nil {
		return 0, err
	}
	return s.data.Size()
}

// openIndexes opens the index files, closing those that are open: rebuild replaces files under the
// same names.
func (s *Segment) openIndexes() error {
	if err := closeAll(s.offsets.file, s.times.file); err != nil {
		return err
	}
	var failed [2]error
	s.offsets.file, failed[0] = s.openIndex(IndexExtension)
	s.times.file, failed[1] = s.openIndex(TimeIndexExtension)
	return errors.Join(failed[0], failed[1])
}

// openIndex opens one index file; a missing one is errIndex.
func (s *Segment) openIndex(extension string) (*vfs.Handle, error) {
	file, err := s.cfg.Handles.OpenReadWrite(s.pathLocked(extension))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	return file, err
}

// loadView makes the view from the index files and the headers behind the last index entry. It
// fails with errIndex when what it looks at does not fit together (docs/format/index.md lists the
// checks).
func (s *Segment) loadView(size int64) error {
	v := emptyView(s.base)
	var failed [2]error
	v.offsets, failed[0] = s.offsets.load(func(a,
		b OffsetEntry) bool {
		return a.Relative < b.Relative && a.Position < b.Position
	})
	v.times, failed[1] = s.times.load(func(a,
		b TimeEntry) bool {
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

// load takes a whole index file for its entries, and checks the last two.
func (x index[E]) load(ascend func(a, b E) bool) (entries[E], error) {
	size, err := x.file.Size()
	if err != nil {
		return entries[E]{}, err
	}
	if size%int64(x.entryBytes) != 0 {
		return entries[E]{}, fmt.Errorf("%w: %d bytes are no whole number of entries", errIndex,
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

// loadTail completes a view that has its index entries by the headers from the last indexed batch
// to the end, and the first.
func (s *Segment) loadTail(v *view, size int64) error {
	if size == 0 {
		if v.offsets.count()+v.times.count() > 0 {
			return fmt.Errorf("%w: there are entries, but no batch", errIndex)
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
			return fmt.Errorf("%w: the last entry points at no batch: %w", errIndex, noEOF(err))
		}
		if header.LastOffset() != s.base+int64(v.offsets.last.Relative) ||
			header.MaxTimestamp() > v.lastTime() {
			return fmt.Errorf(
				"%w: the last entry's batch has another offset, or a timestamp that is missing",
				errIndex,
			)
		}
		v.size, v.next = header.Position, header.BaseOffset()
	}
	if err := s.count(v, size); err != nil {
		return err
	}
	v.firstTimestamp = first.MaxTimestamp()
	if v.offsets.count() != indexed {
		return fmt.Errorf("%w: %d entries are missing at its end", errIndex,
			v.offsets.count()-indexed)
	}
	return nil
}

// count adds the batches from the view's size to the file's. Only headers are read. It fails with
// record.ErrCorrupt at the first batch that does not follow.
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

// checkTimes checks that the last entry of the time index tells of a batch that is there.
func (s *Segment) checkTimes(v *view) error {
	if v.times.count() == 0 {
		if v.offsets.count() > 0 {
			return fmt.Errorf("%w: it is empty", errIndex)
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
		return fmt.Errorf("%w: no batch at the last entry's offset has its timestamp", errIndex)
	}
	return err
}

// rebuild makes the index files anew from the headers of the whole data file. Checksums are not
// looked at: what lies below the recovery point was checked when it was written, and to read all of
// it would make a missing index as dear as a crash.
func (s *Segment) rebuild(size int64) error {
	v := emptyView(s.base)
	if err := s.count(&v, size); err != nil {
		return err
	}
	return s.writeIndexes(v)
}

// writeIndexes replaces the index files by those of a view that has all its entries in memory. On a
// full disk the entries stay there: a log that cannot be opened cannot be read, nor cut by
// retention, which is what would make room.
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
		return s.emptyIndexes(v)
	case err != nil:
		return err
	}
	v.offsets = entries[OffsetEntry]{written: v.offsets.count(), last: v.offsets.last}
	v.times = entries[TimeEntry]{written: v.times.count(), last: v.times.last}
	s.view.Store(&v)
	return s.openIndexes()
}

// emptyIndexes begins the index files anew, with all entries of the view still to be written.
// Should a start find them so, entries are missing at the end, and it makes them again.
func (s *Segment) emptyIndexes(v view) error {
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
