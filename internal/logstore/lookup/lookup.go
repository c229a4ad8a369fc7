package lookup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
)

// Options limit a lookup. A lookup that reaches a limit returns what it has found.
type Options struct {
	// Latest makes the lookup end at the latest committed record.
	Latest     bool
	BytesMax   int64 // maximum number of bytes read; default 32 MiB
	RecordsMax int   // maximum number of records in the result; default 10,000
	// ValueBytesMax is the maximum size of each value in the result; longer values are cut.
	// ValuesBytesMax is the maximum size of all values and headers together. The defaults are 0 and
	// 32 MiB.
	ValueBytesMax, ValuesBytesMax int
	// DecompressedMax is the maximum number of bytes of records that are searched; default 512 MiB.
	// A batch may decompress to many thousand times its size.
	DecompressedMax int64
	Now             time.Time // time at which tombstones are evaluated; default: real time
}

func (o Options) withDefaults() Options {
	if o.BytesMax == 0 {
		o.BytesMax = 32 << 20
	}
	if o.RecordsMax == 0 {
		o.RecordsMax = 10_000
	}
	if o.ValuesBytesMax == 0 {
		o.ValuesBytesMax = 32 << 20
	}
	if o.DecompressedMax == 0 {
		o.DecompressedMax = 512 << 20
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	return o
}

// Records contains the records of one key in a log at one moment, below the high watermark.
type Records struct {
	LogStart, HighWatermark, LastStable int64
	// Complete is false if a limit or the end of the context ended the lookup. A lookup begins at
	// the end of the log, so the records that it has found are the newest.
	Complete bool
	Records  []Record // newest record first
	// ReadBytes is the number of bytes that were read. Scanned of the Segments segments were
	// scanned, because they have no usable key sidecar.
	ReadBytes         int64
	Segments, Scanned int
}

// Latest returns the latest committed record, or nil if no committed record was found.
func (k *Records) Latest() *Record {
	latest := slices.IndexFunc(k.Records,
		func(r Record) bool { return r.State == Live || r.State == Tombstone })
	if latest < 0 {
		return nil
	}
	return &k.Records[latest]
}

// State is the state of a record among all records of the same key.
type State int8

// The states of records.
const (
	Live       State = iota // latest committed record
	Tombstone               // latest committed record, without a value
	Superseded              // older than another committed record
	Aborted                 // part of an aborted transaction
	// Undecided means that the record is at or above the last stable offset.
	Undecided
)

// Record is one record of a key.
type Record struct {
	Offset, TimestampMs int64
	Tombstone           bool
	Value               []byte // cut after Options.ValueBytesMax bytes
	ValueBytes          int    // full size
	// Headers is nil, and HeadersOmitted is set, if the headers and the newer records together
	// exceed Options.ValuesBytesMax.
	Headers        []record.Header
	HeadersOmitted bool
	State          State
	SupersededBy   int64 // offset of the next newer committed record, if State is Superseded
	// Segment is the base offset of the record's segment. SegmentState is the segment's state.
	Segment      int64
	SegmentState compaction.SegmentState
	BlockedBy    string
	// Clock is the tombstone clock of a tombstone whose retention has begun; nil for all other
	// records.
	Clock *progress.TombstoneClock
}

// lookupAttempts is the maximum number of times that a lookup starts again because a pass has
// replaced segments meanwhile. Each replacement needs a rewrite, which takes longer than a lookup.
const lookupAttempts = 8

// Find finds the records of a key that are in the log, below the high watermark. It does not read a
// segment if the segment's key sidecar shows that the segment does not contain the key. It scans
// the other segments, as far as the limits permit: the active segment, and segments without a
// sidecar.
//
// The result is a consistent snapshot, even while records are appended and a pass replaces
// segments: the lookup reads the segments of one segment list, and each list contains the latest
// record of every key. But sidecars are opened by name, and a pass that replaces segments deletes
// or replaces their files. If a sidecar is missing or belongs to other data because its segment was
// replaced meanwhile, the lookup starts again. It also starts again after a truncation.
//
// Find fails with segmentlist.ErrClosed or segmentlist.ErrStorage. After ctx has ended it returns
// the records found so far.
func Find(ctx context.Context, c *compaction.Compaction, key []byte, opts Options) (Records,
	error) {
	opts = opts.withDefaults()
	var spent int64
	for attempt := 1; ; attempt++ {
		s := keyLookup{compaction: c, log: c.Env(), ctx: ctx, key: key, opts: opts}
		s.result.ReadBytes = spent
		err := s.run()
		switch {
		case err == nil:
			return s.result, nil
		case errors.Is(err, segmentlist.ErrChanged) && attempt < lookupAttempts:
			spent = s.result.ReadBytes
			continue
		case errors.Is(err, segmentlist.ErrClosed) || c.Closed():
			return Records{}, segmentlist.ErrClosed
		}
		return Records{}, fmt.Errorf("%w: look up a key: %w", segmentlist.ErrStorage, err)
	}
}

// errLookupLimit ends a lookup early. Find does not return it.
var errLookupLimit = errors.New("limit of the lookup")

// keyLookup is the state of one attempt.
type keyLookup struct {
	compaction  *compaction.Compaction
	log         *compaction.Env
	ctx         context.Context
	key         []byte
	opts        Options
	list        *segmentlist.List
	states      []compaction.StateOf // states of the segments in list
	result      Records
	resultBytes int // total size of values and headers
	// decompressed counts the bytes of the searched records. unchecked counts the bytes searched
	// since the last check of the context.
	decompressed, unchecked int64
	// committed is set once a record below the last stable offset was found that is not part of an
	// aborted transaction.
	committed bool
}

// run searches the segments, newest first.
func (s *keyLookup) run() error {
	l := s.log
	// The number of truncations and the offsets are loaded before the list, for the same reasons as
	// in Compaction.View and ReadCommitted.
	truncations := l.Truncations()
	s.result.HighWatermark = min(l.Offsets.HighWatermark(), l.Offsets.LogEnd())
	s.result.LastStable = min(l.Offsets.LastStable(), s.result.HighWatermark)
	if s.list = l.List.Acquire(); s.list == nil {
		return segmentlist.ErrClosed
	}
	defer s.list.Release()
	c := s.compaction
	var all compaction.SegmentRows
	all, s.states = c.States(s.list.Handles, s.opts.Now)
	s.result.LogStart, s.result.Segments = all.LogStart, all.Total
	err := s.segments()
	if errors.Is(err, errLookupLimit) {
		err = nil
	} else {
		s.result.Complete = err == nil
	}
	if l.Truncations() != truncations {
		return segmentlist.ErrChanged
	}
	s.classify()
	return err
}

// segments searches the segments until all are searched or a limit is reached.
func (s *keyLookup) segments() error {
	for i, h := range slices.Backward(s.list.Handles) {
		if h.NextOffset() <= s.result.LogStart {
			break
		}
		if h.Base() >= s.result.HighWatermark {
			continue
		}
		err := s.segment(i)
		if err != nil || s.opts.Latest && s.committed {
			return err
		}
	}
	return nil
}

// spend counts n bytes that are about to be read. It fails if a limit is reached.
func (s *keyLookup) spend(n int) error {
	if s.ctx.Err() != nil || s.result.ReadBytes+int64(n) > s.opts.BytesMax {
		return errLookupLimit
	}
	s.result.ReadBytes += int64(n)
	return nil
}

// segment finds the records of the key in segment i of the list.
func (s *keyLookup) segment(i int) error {
	h := s.list.Handles[i]
	if !s.states[i].Active {
		found, err := s.bySidecar(i)
		if found || err != nil {
			return err
		}
	}
	s.result.Scanned++
	return s.scan(i, h)
}

// lookupBlockBytes is the size of the blocks in which a segment is scanned backwards.
// lookupBlockMin is the smallest size of a block.
const (
	lookupBlockBytes = 1 << 20
	lookupBlockMin   = 64 << 10
)

// scan finds the records of the key in a segment without a sidecar. It reads the newest block
// first, but each block from its beginning.
func (s *keyLookup) scan(i int, h *segmentlist.Handle) error {
	end, err := h.Position(s.result.HighWatermark)
	if err != nil {
		return err
	}
	begin, err := h.Position(s.result.LogStart)
	if err != nil {
		return err
	}
	for end > begin {
		// Use smaller blocks near the limit. Otherwise the lookup would stop well before a small limit.
		left := s.opts.BytesMax - s.result.ReadBytes
		from, err := h.Boundary(max(end-min(lookupBlockBytes, max(left/2, lookupBlockMin)), 0))
		if err != nil {
			return err
		}
		from = max(from, begin)
		if err := s.spend(int(end - from)); err != nil {
			return err
		}
		block := s.recent()
		err = h.Scan(from, func(position int64, b record.Batch) error {
			if position >= end {
				return errLookupEnd
			}
			return s.batch(i, segmentlist.Batch{Handle: h, Header: segment.Header{Batch: b,
				Position:  position,
				SizeBytes: len(b)}}, block)
		})
		if err != nil && !errors.Is(err, errLookupEnd) {
			return err
		}
		if err := s.take(block); err != nil || s.opts.Latest && s.committed {
			return err
		}
		end = from
	}
	return nil
}

// errLookupEnd ends the scan of a block.
var errLookupEnd = errors.New("end of the block")

// batch adds the records of the key in a batch to a block. It decompresses one record at a time,
// because a batch may be large.
//
// A batch with a record larger than segmentlist.DecompressedBytesMax cannot be searched to its end.
// The rest of the batch may contain the key, so the block drops all older records, and the lookup
// ends after the block.
func (s *keyLookup) batch(i int, b segmentlist.Batch, block *recentRecords) error {
	if b.Header.Control() || b.Header.Count() == 0 ||
		b.Header.LastOffset() >= s.result.HighWatermark {
		return nil
	}
	if s.ctx.Err() != nil {
		return errLookupLimit
	}
	records, checked := b.Records(), false
	if whole := b.Header.Batch; len(whole) == b.Header.SizeBytes {
		records = whole.Stream(bytes.NewReader(whole[record.HeaderBytes:]),
			segmentlist.DecompressedBytesMax)
	}
	for r, err := range records {
		if errors.Is(err, compress.ErrTooLarge) {
			block.forget()
			return nil
		}
		if err == nil {
			err = s.searched(r)
		}
		if err != nil {
			return err
		}
		if r.Key == nil || !bytes.Equal(r.Key, s.key) || r.Offset < s.result.LogStart {
			continue
		}
		if !checked {
			if err := b.CheckCRC(); err != nil {
				return err
			}
			checked = true
		}
		found, err := s.record(i, b, r, block.bytesMax)
		if err != nil {
			return err
		}
		block.add(found)
	}
	return nil
}

// lookupCheckBytes is the number of decompressed bytes after which the context is checked.
const lookupCheckBytes = 1 << 20

// searched counts the bytes of a record. It fails if a limit is reached.
func (s *keyLookup) searched(r *record.Record) error {
	n := int64(len(r.Key) + len(r.Value) + recordHeaderBytes(r) + recordOverheadMin)
	s.decompressed += n
	if s.unchecked += n; s.unchecked >= lookupCheckBytes {
		s.unchecked = 0
		if s.ctx.Err() != nil {
			return errLookupLimit
		}
	}
	if s.decompressed > s.opts.DecompressedMax {
		return errLookupLimit
	}
	return nil
}

// record returns a record of the key, with a state that does not distinguish Live, Tombstone and
// Superseded yet. The record's value and headers together have at most bytesMax bytes.
func (s *keyLookup) record(i int, b segmentlist.Batch, r *record.Record, bytesMax int) (Record,
	error) {
	state := s.states[i]
	found := Record{Offset: r.Offset, TimestampMs: r.Timestamp, Tombstone: r.Tombstone(),
		ValueBytes: len(r.Value), Segment: b.Handle.Base(), SegmentState: state.State,
		BlockedBy: state.BlockedBy}
	if r.Value != nil {
		n := min(len(r.Value), s.opts.ValueBytesMax, max(0, bytesMax))
		found.Value = append(make([]byte, 0, n), r.Value[:n]...)
	}
	found.HeadersOmitted = len(found.Value)+recordHeaderBytes(r) > bytesMax &&
		r.HeaderCount() > 0
	if !found.HeadersOmitted {
		for header := range r.AllHeaders() {
			found.Headers = append(found.Headers,
				record.Header{Key: slices.Clone(header.Key), Value: slices.Clone(header.Value)})
		}
	}
	aborted, err := s.aborted(i, b, r.Offset)
	switch {
	case r.Offset >= s.result.LastStable:
		found.State = Undecided
	case aborted:
		found.State = Aborted
	}
	return found, err
}

// take adds the records of a block to the result.
func (s *keyLookup) take(block *recentRecords) error {
	for _, r := range slices.Backward(block.records) {
		s.result.Records = append(s.result.Records, r)
		s.committed = s.committed || r.State == Live
	}
	s.resultBytes += block.bytes
	if block.dropped {
		return errLookupLimit
	}
	return nil
}

// aborted reports whether a record below the last stable offset belongs to an aborted transaction.
func (s *keyLookup) aborted(i int, b segmentlist.Batch, offset int64) (aborted bool, err error) {
	if !b.Header.Transactional() || offset >= s.result.LastStable {
		return false, nil
	}
	for _, h := range s.list.Handles[i:] {
		complete, err := h.Aborted(offset, offset+1, func(a segment.AbortedTxn) {
			aborted = aborted || a.ProducerID == b.Header.ProducerID() &&
				a.FirstOffset <= offset && offset <= a.LastOffset
		})
		if aborted || complete || err != nil {
			return aborted, err
		}
	}
	return false, nil
}

// classify sets the states of the committed records, all of which are Live before. The latest
// record stays Live or becomes a Tombstone. The next newer record supersedes each of the other
// records.
func (s *keyLookup) classify() {
	newer := int64(-1)
	for i := range s.result.Records {
		r := &s.result.Records[i]
		if r.State != Live {
			continue
		}
		switch {
		case newer >= 0:
			r.State, r.SupersededBy = Superseded, newer
		case r.Tombstone:
			r.State = Tombstone
		}
		newer = r.Offset
	}
	// Only the latest record keeps its clock.
	for i := range s.result.Records {
		if r := &s.result.Records[i]; r.State != Tombstone {
			r.Clock = nil
		}
	}
}
