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

// Defaults of Config, which are Kafka's.
const (
	defaultIndexIntervalBytes = 4096
	defaultIndexBytesMax      = 10 << 20
)

// Errors of changes to a segment.
var (
	ErrSealed = errors.New("segment is sealed") // Append after Seal
	ErrFull   = errors.New("segment is full")   // see Fits
)

// Config bounds a segment's index files.
type Config struct {
	// IndexIntervalBytes is the minimum distance of index entries in bytes; default 4096.
	IndexIntervalBytes int
	IndexBytesMax      int // largest index file; default 10 MiB
	// Synced is the offset below which all data is known to be on the disk, for Recover; default:
	// none.
	Synced int64
	// Handles opens the files and limits how many stay open; default: no limit.
	Handles *vfs.Handles
}

func (c Config) withDefaults() Config {
	if c.IndexIntervalBytes == 0 {
		c.IndexIntervalBytes = defaultIndexIntervalBytes
	}
	if c.IndexBytesMax == 0 {
		c.IndexBytesMax = defaultIndexBytesMax
	}
	return c
}

// Segment is one segment: <base>.log with its .index and .timeindex, and a .txnindex if
// transactions that end in it were aborted. See doc.go for the concurrency of its methods.
type Segment struct {
	fsys vfs.FS
	dir  string
	base int64
	cfg  Config

	// The files are opened on demand. Rename does not disturb readers.
	data    *vfs.Handle
	offsets index[OffsetEntry]
	times   index[TimeEntry]
	// The file of txns is nil until there is an entry to write. The file is set under mu, before a
	// view that needs it is stored.
	txns index[AbortedTxn]

	// view is the state that readers use; stored under mu only, after its bytes were written.
	view    atomic.Pointer[view]
	modTime atomic.Pointer[time.Time]

	// syncing is held during a sync of the files, and acquired before mu. The kernel reports a
	// failed write to one of the waiting syncs only; a concurrent one would succeed.
	syncing sync.Mutex

	txnDamage error // see TxnIndexDamaged

	// mu is held during every change of the files; see doc.go.
	mu struct {
		sync.Mutex
		suffix  string // current suffix of the files: "", .cleaned, .swap or .deleted
		named   bool   // the names of the files are durable
		written bool   // data or the modification time changed since the last sync
		indexed bool   // an index file changed since it was synced; Sync does not sync it
		sealed  bool   // Append fails, until Truncate
		// mustRewrite is the range of bytes that are in the page cache and may not be on the disk
		// even after a successful sync. So the range has to be rewritten before a sync. When a sync
		// fails, the kernel marks the pages clean that it failed to write. A process that starts
		// afterwards, on the same boot, reads these pages and syncs them successfully, because they
		// are clean (ADR 0051).
		mustRewrite byteRange
		removed     bool  // Close syncs nothing
		broken      error // not nil: the files may differ from the view
	}
}

// Base returns the base offset, which names the files.
func (s *Segment) Base() int64 { return s.base }

// NextOffset returns the last offset + 1; Base if the segment is empty.
func (s *Segment) NextOffset() int64 { return s.view.Load().next }

// SizeBytes returns the size of the whole batches in the data file.
func (s *Segment) SizeBytes() int64 { return s.view.Load().size }

// MaxTimestamp returns the largest timestamp and the last offset of its batch; -1 and Base if the
// segment is empty.
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

// File returns the data file, for reads of ranges below SizeBytes. Pin gives access to the file
// descriptor.
func (s *Segment) File() *vfs.Handle { return s.data }

// Fits reports whether a batch with its final offsets can be appended without exceeding an index,
// the 31-bit relative offset or the 31-bit position. It is conservative, because the batch may need
// no index entry. One entry of the time index is reserved for Seal.
func (s *Segment) Fits(b record.Parts) bool {
	v := s.view.Load()
	return b.LastOffset()-s.base <= math.MaxInt32 && v.size+int64(b.SizeBytes()) <= math.MaxInt32 &&
		v.offsets.count() < s.cfg.IndexBytesMax/OffsetEntryBytes &&
		v.times.count() < s.cfg.IndexBytesMax/TimeEntryBytes-1
}

// Append writes a batch with its final offsets at the end, and indexes it. The batch is not durable
// until Sync. Append fails with ErrSealed, with ErrFull (see Fits), with an error that wraps
// record.ErrCorrupt if b is not one batch or its offsets do not ascend, or with the error of the
// write. A failed write is undone; if that fails too, the segment is broken and rejects every later
// change.
func (s *Segment) Append(b record.Batch) error { return s.AppendParts(record.Whole(b)) }

// AppendParts is Append of a batch in several pieces of memory, which are written without a copy.
// Readers see the whole batch or nothing.
func (s *Segment) AppendParts(b record.Parts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := b.SizeBytes()
	if err := s.appendableLocked(b, size); err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	// Open the file first: a lack of file descriptors requires no undo.
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
	s.view.Store(&next) // after the write: see view
	return nil
}

// writeLocked writes the pieces one after the other. One pwritev would save a system call per 128
// KiB of compressed data, whose compression took a thousand times as long, and would need a second
// write path in vfs.
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

// appendableLocked checks what Open and Recover check when they read the batch.
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

// undoLocked truncates the file after a failed write. The next append would overwrite the partial
// batch, but until then Kafka's tools, and a restart, would consider the file damaged.
func (s *Segment) undoLocked(size int64) error {
	err := s.data.Truncate(size)
	if err != nil {
		s.mu.broken = fmt.Errorf("segment %d is unusable since its truncation to %d bytes failed: %w",
			s.base, size, err)
	}
	return err
}

// pathLocked returns the path of one of the files under its current suffix.
func (s *Segment) pathLocked(extension string) string {
	return filepath.Join(s.dir, Name(s.base, extension, s.mu.suffix))
}
