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

// Defaults of Config: Kafka's.
const (
	defaultIndexIntervalBytes = 4096
	defaultIndexBytesMax      = 10 << 20
)

// What changes of a segment fail with.
var (
	ErrSealed = errors.New("segment is sealed") // Append after Seal
	ErrFull   = errors.New("segment is full")   // see Fits
)

// Config bounds a segment's index files.
type Config struct {
	// an index entry is written once more than this many bytes follow the last; default 4096
	IndexIntervalBytes int
	IndexBytesMax      int // largest index file; default 10 MiB
	// Synced is what Recover knows to be on the disk: offsets below it; default: none.
	Synced int64
	// Handles is where the files are opened, and which of them stay open; default: all of them.
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
// transactions that end in it were aborted. One goroutine appends; any number read beside it.
type Segment struct {
	fsys vfs.FS
	dir  string
	base int64
	cfg  Config

	// Opened when they are used; a rename does not disturb readers (Rename).
	data    *vfs.Handle
	offsets index[OffsetEntry]
	times   index[TimeEntry]
	// its file is nil until there is an entry to write; it is set under mu, before a view that
	// needs it
	txns index[AbortedTxn]

	// view is what readers go by; stored under mu only, after the bytes it tells of are in the
	// files.
	view    atomic.Pointer[view]
	modTime atomic.Pointer[time.Time]

	// syncing is held over a sync of the files, before mu. The kernel reports a failed write to one
	// of the syncs that wait for it; a second one beside it would be told that all is well.
	syncing sync.Mutex

	txnDamage error // what Open found wrong with the transaction index; see TxnIndexDamaged

	// mu is held by whoever changes the files; see doc.go.
	mu struct {
		sync.Mutex
		suffix  string // of the files now: "", .cleaned, .swap or .deleted
		named   bool   // the directory was synced since the files were made
		written bool   // something was written, or the time set, that was not synced
		indexed bool   // an index file was changed and not synced; Sync leaves it so
		sealed  bool   // Append fails; Truncate takes it back
		// unproven has to be written again before a sync proves anything.
		unproven unproven
		removed  bool  // Close makes nothing durable any more
		broken   error // not nil: the files are not what the view says
	}
}

// Base returns the base offset, which names the files.
func (s *Segment) Base() int64 { return s.base }

// NextOffset returns the last offset + 1; Base if the segment is empty.
func (s *Segment) NextOffset() int64 { return s.view.Load().next }

// SizeBytes returns the size of the whole batches in the data file.
func (s *Segment) SizeBytes() int64 { return s.view.Load().size }

// MaxTimestamp returns the largest timestamp and the last offset of the batch that has it; -1, Base
// if empty.
func (s *Segment) MaxTimestamp() (ms, offset int64) {
	v := s.view.Load()
	return v.maxTimestamp, v.maxTimestampOffset
}

// FirstTimestamp returns the max timestamp of the first batch; ok is false if empty.
func (s *Segment) FirstTimestamp() (ms int64, ok bool) {
	v := s.view.Load()
	return v.firstTimestamp, v.size > 0
}

// ModTime returns when the data file was last changed, as of when it was opened, sealed, or given a
// time by SetModTime.
func (s *Segment) ModTime() time.Time { return *s.modTime.Load() }

// File returns the data file, for reads of ranges below SizeBytes. Whoever needs the operating
// system's file pins it.
func (s *Segment) File() *vfs.Handle { return s.data }

// Fits tells whether a batch, offsets set, can be appended without overflowing an index, the 31-bit
// relative offset or the 31-bit position. It is conservative: the batch may need no index entry.
// One entry of the time index is kept free for Seal.
func (s *Segment) Fits(b record.Parts) bool {
	v := s.view.Load()
	return b.LastOffset()-s.base <= math.MaxInt32 && v.size+int64(b.SizeBytes()) <= math.MaxInt32 &&
		v.offsets.count() < s.cfg.IndexBytesMax/OffsetEntryBytes &&
		v.times.count() < s.cfg.IndexBytesMax/TimeEntryBytes-1
}

// Append writes a batch, offsets set, at the end, and indexes it. A failed write leaves the segment
// as it was, or, when even that fails, unusable: every later change then fails. It fails with
// ErrSealed, with ErrFull (Fits), with an error that wraps record.ErrCorrupt for what is not one
// batch or does not ascend, or with that of the write. The batch is not durable until Sync.
func (s *Segment) Append(b record.Batch) error { return s.AppendParts(record.Whole(b)) }

// AppendParts is Append of a batch in several pieces: each is written from where it lies. Readers
// see all of it or nothing.
func (s *Segment) AppendParts(b record.Parts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := b.SizeBytes()
	if err := s.appendableLocked(b, size); err != nil {
		return fmt.Errorf("append to segment %d: %w", s.base, err)
	}
	// Open before anything is written: that there is no file left to open is no reason to take back
	// what was not written.
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
	s.view.Store(&next) // only now may readers know of it: see view
	return nil
}

// writeLocked writes the pieces one behind the other. One call for all of them (pwritev) would save
// a system call for each 128 KiB of compressed data, which took the codec a thousand times as long,
// and would need a second way through vfs.
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

// appendableLocked is the check on this side of the disk of what Open and Recover check when they
// read.
func (s *Segment) appendableLocked(b record.Parts, size int) error {
	if s.mu.broken != nil {
		return s.mu.broken
	}
	if s.mu.sealed {
		return ErrSealed
	}
	if claimed, err := record.PeekSize(b.Batch); err != nil || claimed != size {
		return fmt.Errorf("%w: %d bytes that are not one batch", record.ErrCorrupt, size)
	}
	if !s.Fits(b) {
		return ErrFull
	}
	return s.view.Load().check(b.Batch, size)
}

// undoLocked cuts off what a failed write left. A part of a batch at the end would be overwritten
// by the next append in any case, but until then the file would be one that Kafka's tools, and our
// own after a stop, take for damaged.
func (s *Segment) undoLocked(size int64) error {
	err := s.data.Truncate(size)
	if err != nil {
		s.mu.broken = fmt.Errorf(
			"segment %d is unusable since it could not be cut back to %d bytes: %w",
			s.base,
			size,
			err,
		)
	}
	return err
}

// pathLocked returns the path of one of the files, under its present suffix.
func (s *Segment) pathLocked(extension string) string {
	return filepath.Join(s.dir, Name(s.base, extension, s.mu.suffix))
}
