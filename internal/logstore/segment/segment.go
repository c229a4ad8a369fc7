package segment

import (
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Config bounds a segment's index files.
type Config struct {
	IndexIntervalBytes int // an index entry is written once more than this many bytes follow the last; default 4096
	IndexBytesMax      int // largest index file; default 10 MiB
}

// Segment is one segment: <base>.log with its .index and .timeindex. One goroutine appends; any number read beside it.
type Segment struct{}

// Create makes a new, empty segment. suffix is "" or one of ".cleaned", ".swap".
func Create(fsys vfs.FS, dir string, base int64, suffix string, cfg Config) (*Segment, error) {
	panic("unwritten")
}

// Open opens a segment that was closed in order or sealed; missing or wrong index files are rebuilt.
func Open(fsys vfs.FS, dir string, base int64, cfg Config) (*Segment, error) { panic("unwritten") }

// Recovered is what Recover found.
type Recovered struct {
	Batches        int64
	TruncatedBytes int64 // > 0: everything behind the first bad batch was cut off
	Cause          error // why, nil if nothing was cut
}

// Recover opens a segment after an unclean stop: it checks every batch (length, CRC, ascending offsets), truncates at the
// first bad one, rebuilds the indexes, and calls visit for each good batch.
func Recover(fsys vfs.FS, dir string, base int64, cfg Config, visit func(record.Batch) error) (*Segment, Recovered, error) {
	panic("unwritten")
}

func (s *Segment) Base() int64       { panic("unwritten") }
func (s *Segment) NextOffset() int64 { panic("unwritten") } // last offset + 1; Base if empty
func (s *Segment) SizeBytes() int64  { panic("unwritten") }

// MaxTimestamp returns the largest timestamp and the last offset of the batch that has it; -1, Base if empty.
func (s *Segment) MaxTimestamp() (ms, offset int64) { panic("unwritten") }

// FirstTimestamp returns the max timestamp of the first batch; ok is false if empty.
func (s *Segment) FirstTimestamp() (ms int64, ok bool) { panic("unwritten") }
func (s *Segment) ModTime() time.Time                  { panic("unwritten") }

// Fits tells whether a batch can be appended without overflowing an index or the 31-bit relative offset.
func (s *Segment) Fits(b record.Batch) bool { panic("unwritten") }

// Append writes a batch, offsets set, at the end, and indexes it. A failed write leaves the segment as it was, or, when even
// that fails, unusable: every later call then fails.
func (s *Segment) Append(b record.Batch) error { panic("unwritten") }

// Position returns where the first batch whose last offset is >= offset begins; SizeBytes if there is none.
func (s *Segment) Position(offset int64) (int64, error) { panic("unwritten") }

// Header is a batch's header and its place in the file.
type Header struct {
	record.Batch       // the 61 header bytes only: header accessors work, Records and CheckCRC do not
	Position     int64 // in the data file
	SizeBytes    int   // of the whole batch
}

// HeaderAt reads the header of the batch that begins at position; io.EOF at the end.
func (s *Segment) HeaderAt(position int64) (Header, error) { panic("unwritten") }

// Scan calls visit for each whole batch from position on (checked for length, not CRC), with its position. The batch is
// valid during the call only. Batches of any size are read: the buffer grows to the actual batch.
func (s *Segment) Scan(position int64, visit func(position int64, b record.Batch) error) error {
	panic("unwritten")
}

// OffsetForTimestamp returns the first batch whose max timestamp is >= ms, as its position; ok is false if there is none.
func (s *Segment) PositionForTimestamp(ms int64) (position int64, ok bool, err error) {
	panic("unwritten")
}

// File returns the data file, for reads of ranges; it stays open until Close.
func (s *Segment) File() vfs.File { panic("unwritten") }

// Sync makes data and indexes durable.
func (s *Segment) Sync() error { panic("unwritten") }

// Seal ends writing: the last time index entry is written, all is synced.
func (s *Segment) Seal() error { panic("unwritten") }

// Truncate cuts off every batch that holds an offset >= offset.
func (s *Segment) Truncate(offset int64) error { panic("unwritten") }

// Rename gives all files of the segment another suffix ("", ".cleaned", ".swap", ".deleted").
func (s *Segment) Rename(suffix string) error { panic("unwritten") }

// Remove deletes all files of the segment; they must not be open elsewhere.
func (s *Segment) Remove() error { panic("unwritten") }
func (s *Segment) Close() error  { panic("unwritten") }
