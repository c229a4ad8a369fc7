package segment

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Defaults of Config. The first two defaults are Kafka's.
const (
	defaultIndexIntervalBytes = 4096
	defaultIndexBytesMax      = 10 << 20
	defaultUnwrittenMax       = 256
)

// Errors of changes to a segment.
var (
	ErrSealed = errors.New("segment is sealed") // returned by Append after Seal
	ErrFull   = errors.New("segment is full")   // see Fits
)

// Config contains the settings of a segment. The zero value is valid.
type Config struct {
	// IndexIntervalBytes is the minimum number of bytes in the data file between two index entries;
	// default 4096.
	IndexIntervalBytes int
	IndexBytesMax      int // size limit of an index file; default 10 MiB
	// UnwrittenEntriesMax is the number of index entries in memory at which Sync writes them to the
	// index files. The default of 256 entries corresponds to half a mebibyte of data or more, and
	// uses a few KiB of memory. An index file that was written stays open until it is synced. So
	// with a smaller number, a segment with little traffic would need three descriptors instead of
	// one.
	UnwrittenEntriesMax int
	// Synced is the offset below which all data is known to be on the disk. Only Recover uses it.
	// Default: no data is known to be on the disk.
	Synced int64
	// Handles opens the files and limits the number of files that stay open; default: no limit.
	Handles *vfs.Handles
}

func (c Config) withDefaults() Config {
	if c.IndexIntervalBytes == 0 {
		c.IndexIntervalBytes = defaultIndexIntervalBytes
	}
	if c.UnwrittenEntriesMax == 0 {
		c.UnwrittenEntriesMax = defaultUnwrittenMax
	}
	if c.IndexBytesMax == 0 {
		c.IndexBytesMax = defaultIndexBytesMax
	}
	return c
}

// Segment is one segment: the file <base>.log with its .index and .timeindex files, and a .txnindex
// file if transactions that end in the segment were aborted. See doc.go for the concurrency of the
// methods.
type Segment struct {
	fsys vfs.FS
	dir  string
	base int64
	cfg  Config

	// A file is opened on demand. Rename does not disturb readers.
	data    *vfs.Handle
	offsets index[OffsetEntry]
	times   index[TimeEntry]
	// txns.file is nil until there is an entry to write. It is set under mu, before a view that
	// needs the file is stored.
	txns index[AbortedTxn]

	// view is the state that readers use. It is stored only under mu, after the bytes that it
	// describes were written.
	view    atomic.Pointer[view]
	modTime atomic.Pointer[time.Time]

	// syncing is held during a sync of the files, and acquired before mu. It admits one sync at a
	// time: the kernel reports a failed write to only one waiting sync, so a concurrent sync would
	// succeed although data is lost.
	syncing sync.Mutex

	txnDamage error // see TxnIndexDamaged

	// mu is held during every change of the files; see doc.go.
	mu struct {
		sync.Mutex
		suffix  string // current suffix of the files: empty, .cleaned, .swap or .deleted
		named   bool   // true if the names of the files are durable
		written bool   // true if data or modification time has changed since the last sync
		indexed bool   // true if an index file has unsynced changes; Sync ignores index files
		sealed  bool   // true if Append fails until Truncate
		// indexesSeen contains the numbers of written entries of the three indexes at the last call
		// of SyncIdleIndexes.
		indexesSeen [3]int
		// mustRewrite is a range of bytes that are in the page cache but may be missing on the disk
		// even after a successful sync. The range has to be rewritten before a sync. The reason is
		// that when a sync fails, the kernel marks the pages that it failed to write as clean. A
		// process that starts afterwards, without a reboot, reads these pages, and its sync
		// succeeds because the pages are clean (ADR 0051).
		mustRewrite byteRange
		removed     bool  // true if the files are or will be deleted; Close syncs nothing
		broken      error // not nil if the files may differ from the view
	}
}

// Base returns the base offset, which names the files.
func (s *Segment) Base() int64 { return s.base }

// NextOffset returns the offset after the segment's last offset, or Base if the segment is empty.
func (s *Segment) NextOffset() int64 { return s.view.Load().next }

// SizeBytes returns the total size of the complete batches in the data file.
func (s *Segment) SizeBytes() int64 { return s.view.Load().size }

// MaxTimestamp returns the largest timestamp in the segment and the last offset of the first batch
// with this timestamp. It returns -1 and Base if the segment is empty.
func (s *Segment) MaxTimestamp() (ms, offset int64) {
	v := s.view.Load()
	return v.maxTimestamp, v.maxTimestampOffset
}

// FirstTimestamp returns the maximum timestamp of the first batch; ok is false if the segment is
// empty.
func (s *Segment) FirstTimestamp() (ms int64, ok bool) {
	v := s.view.Load()
	return v.firstTimestamp, v.size > 0
}

// ModTime returns the modification time of the data file, as of the last Open, Seal or SetModTime.
func (s *Segment) ModTime() time.Time { return *s.modTime.Load() }

// File returns the data file, for reads below SizeBytes. The handle's Pin gives access to the file
// descriptor.
func (s *Segment) File() *vfs.Handle { return s.data }

// Fits reports whether a batch with its final offsets can be appended. The limits are the size of
// an index, the 31 bits of a relative offset and the 31 bits of a position. Fits assumes that the
// batch needs index entries, although it may need none. One entry of the time index is reserved for
// Seal.
func (s *Segment) Fits(b record.Parts) bool {
	v := s.view.Load()
	return b.LastOffset()-s.base <= math.MaxInt32 && v.size+int64(b.SizeBytes()) <= math.MaxInt32 &&
		v.offsets.count() < s.cfg.IndexBytesMax/OffsetEntryBytes &&
		v.times.count() < s.cfg.IndexBytesMax/TimeEntryBytes-1
}

// Append writes a batch with its final offsets at the end of the segment and indexes the batch. The
// batch is not durable until Sync. Append fails with ErrSealed, with ErrFull (see Fits), or with
// the error of the write. If b is not one batch or its offsets do not ascend, the error wraps
// record.ErrCorrupt. A failed write is undone. If the undo fails too, the segment is broken and
// rejects every later change.
func (s *Segment) Append(b record.Batch) error { return s.AppendParts(record.Whole(b)) }

// AppendParts is like Append, but for a batch in several pieces of memory, which it writes without
// copying them together. Readers see either the whole batch or nothing of it.
func (s *Segment) AppendParts(b record.Parts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := b.SizeBytes()
	if err := s.appendableLocked(b, size); err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	// Open the file before the write. If opening fails for lack of file descriptors, nothing has to
	// be undone.
	if _, err := s.data.Pin(); err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	defer s.data.Unpin()
	next := *s.view.Load()
	if err := s.writeLocked(b, next.size); err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base,
			errors.Join(err, s.undoLocked(next.size)))
	}
	next.add(b.Batch, size, s.cfg.IndexIntervalBytes)
	s.mu.written = true
	s.view.Store(&next) // after the write; see type view
	return nil
}

// writeLocked writes the pieces of a batch one after the other. A single pwritev for all pieces
// would save one system call per 128 KiB of compressed data, which is a thousandth of the time of
// the compression, but would need a second write path in vfs.
func (s *Segment) writeLocked(b record.Parts, position int64) error {
	if _, err := s.data.WriteAt(b.Batch, position); err != nil {
		return err
	}
	position += int64(len(b.Batch))
	for _, piece := range b.Rest {
		if _, err := s.data.WriteAt(piece, position); err != nil {
			return err
		}
		position += int64(len(piece))
	}
	return nil
}

// appendableLocked applies the same checks as Open and Recover, which read the batch later.
// Otherwise the segment could not be opened again.
func (s *Segment) appendableLocked(b record.Parts, size int) error {
	if s.mu.broken != nil {
		return s.mu.broken
	}
	if s.mu.sealed {
		return ErrSealed
	}
	if claimed, err := record.PeekSize(b.Batch); err != nil || claimed != size {
		return fmt.Errorf("%w: %d bytes are not one batch", record.ErrCorrupt, size)
	}
	if !s.Fits(b) {
		return ErrFull
	}
	return s.view.Load().check(b.Batch, size)
}

// undoLocked truncates the data file to size after a failed write. Otherwise Kafka's tools and a
// restart would consider the file damaged until the next append overwrites the partial batch.
func (s *Segment) undoLocked(size int64) error {
	err := s.data.Truncate(size)
	if err != nil {
		s.mu.broken = fmt.Errorf("segment %d is unusable since its truncation to %d bytes failed: %w",
			s.base, size, err)
	}
	return err
}

// pathLocked returns the path of the file with the given extension and the current suffix.
func (s *Segment) pathLocked(extension string) string {
	return filepath.Join(s.dir, Name(s.base, extension, s.mu.suffix))
}
