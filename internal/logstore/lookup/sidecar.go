package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/record"
)

// sidecarHeaderBytes is the size of the header of a key sidecar.
const sidecarHeaderBytes = 256

// bySidecar finds the records of the key in segment i by the segment's key sidecar. If the segment
// must be scanned, because it has no usable sidecar or has batches of unknown keys, ok is false.
func (s *keyLookup) bySidecar(i int) (ok bool, err error) {
	h, c := s.list.Handles[i], s.compaction
	if state := h.SidecarState(); state != nil && state.Digest == 0 {
		return false, nil
	}
	if err := s.spend(sidecarHeaderBytes); err != nil {
		return false, err
	}
	reader, err := c.Sidecars.Open(h, true)
	switch {
	case errors.Is(err, sidecars.ErrNoKeys):
		return false, nil
	case keys.Unusable(err), errors.Is(err, fs.ErrNotExist):
		return false, s.stillListed(h)
	case err != nil:
		return false, err
	}
	reader.OnRead(s.spend)
	records, values, committed := len(s.result.Records), s.resultBytes, s.committed
	ok, err = s.search(i, reader)
	if err = errors.Join(err, reader.Close()); keys.Unusable(err) {
		// The following scan finds the records before the damage again, so remove them from the
		// result.
		s.result.Records, s.resultBytes, s.committed = s.result.Records[:records], values, committed
		return false, s.stillListed(h)
	}
	return ok, err
}

// stillListed fails with segmentlist.ErrChanged if a segment is no longer in the log.
func (s *keyLookup) stillListed(h *segmentlist.Handle) error {
	list := s.log.List.Acquire()
	if list == nil {
		return segmentlist.ErrClosed
	}
	defer list.Release()
	if !slices.Contains(list.Handles, h) {
		return segmentlist.ErrChanged
	}
	return nil
}

// search finds the records by the entries in an open sidecar, newest first. It keeps one page of
// entries, one batch and one span of the batch index in memory, regardless of the number of records
// of the key.
func (s *keyLookup) search(i int, reader *keys.Reader) (ok bool, err error) {
	if reader.Counts().Opaque > 0 {
		return false, nil
	}
	newest := reader.Newest(s.compaction.Sidecars.Salt.Load().Hasher().Hash(s.key))
	batches := s.locator(i, reader)
	passed := uint32(math.MaxUint32) // first ordinal of the previous batch
	for newest.Next() {
		ordinal := newest.Ordinal()
		if ordinal >= passed {
			continue
		}
		b, err := batches.locate(ordinal)
		if err != nil {
			return true, err
		}
		passed = b.FirstOrdinal
		if b.LastOffset < s.result.LogStart {
			break // all older batches are also below the log start
		}
		if b.LastOffset >= s.result.HighWatermark {
			continue
		}
		err = s.locatedBatch(i, reader, b, ordinal)
		if err != nil || s.opts.Latest && s.committed {
			return true, err
		}
	}
	return true, newest.Err()
}

// locatedBatch finds the records of the key in a batch that the sidecar describes. last is the
// ordinal of the last of these records.
func (s *keyLookup) locatedBatch(i int, reader *keys.Reader, b keys.Batch, last uint32) error {
	located, err := s.read(s.list.Handles[i], b)
	if err != nil {
		return err
	}
	block := s.recent()
	if err := s.batch(i, located, block); err != nil {
		return err
	}
	if n := len(block.records); n > 0 && block.records[n-1].Tombstone && !s.committed {
		block.records[n-1].Clock = s.clock(i, reader, b, last)
	}
	return s.take(block)
}

// read reads a batch, or only its header if the batch is larger than lookupBlockBytes. It fails
// with keys.ErrStale if the batch is not the batch that the sidecar describes.
func (s *keyLookup) read(h *segmentlist.Handle, b keys.Batch) (segmentlist.Batch, error) {
	if err := s.spend(b.SizeBytes); err != nil {
		return segmentlist.Batch{}, err
	}
	read := segmentlist.Batch{Handle: h, Header: segment.Header{Position: b.Position,
		SizeBytes: b.SizeBytes}}
	if b.SizeBytes > lookupBlockBytes {
		header, err := h.HeaderAt(b.Position)
		if err != nil {
			return segmentlist.Batch{}, err
		}
		read.Header = header
	} else {
		read.Header.Batch = make(record.Batch, b.SizeBytes)
		if n, err := h.File().ReadAt(read.Header.Batch, b.Position); n < b.SizeBytes {
			return segmentlist.Batch{}, fmt.Errorf("read the batch at %d of segment %d: %w", b.Position,
				h.Base(), err)
		}
	}
	if size, err := record.PeekSize(read.Header.Batch); err != nil || size != b.SizeBytes ||
		read.Header.CRC() != b.CRC || read.Header.BaseOffset() != b.BaseOffset {
		return segmentlist.Batch{}, fmt.Errorf("%w: another batch at %d of segment %d", keys.ErrStale,
			b.Position, h.Base())
	}
	return read, nil
}

// batchLocator finds the batch that contains a record.
type batchLocator struct {
	lookup  *keyLookup
	handle  *segmentlist.Handle
	batches *keys.Locator
	// dense is set if the batch can be found by the offset index. In this case there is no batch
	// index, but there is a record at each offset, because the cleaner has not rewritten the
	// segment. An offset therefore follows from an ordinal.
	dense bool
}

func (s *keyLookup) locator(i int, reader *keys.Reader) batchLocator {
	h := s.list.Handles[i]
	return batchLocator{s, h, reader.Locator(), !reader.HasIndex() &&
		int64(reader.Counts().Records) == h.NextOffset()-h.Base()}
}

// indexLookupBytes is the approximate number of bytes that a lookup by the offset index reads: some
// entries of the index, and the batch headers of one index interval.
const indexLookupBytes = 4 << 10

// locate returns the batch that contains the record with the given ordinal. If it uses the offset
// index, it sets only the fields that a lookup uses.
func (l batchLocator) locate(ordinal uint32) (keys.Batch, error) {
	if !l.dense {
		return l.batches.Batch(ordinal)
	}
	if err := l.lookup.spend(indexLookupBytes); err != nil {
		return keys.Batch{}, err
	}
	position, err := l.handle.Position(l.handle.Base() + int64(ordinal))
	if err != nil {
		return keys.Batch{}, err
	}
	header, err := l.handle.HeaderAt(position)
	if err != nil {
		return keys.Batch{}, err
	}
	b := keys.Batch{Position: position, SizeBytes: header.SizeBytes, CRC: header.CRC(),
		BaseOffset: header.BaseOffset(), LastOffset: header.LastOffset(),
		FirstOrdinal: uint32(header.BaseOffset() - l.handle.Base())}
	b.HorizonMs, _ = header.DeleteHorizon()
	return b, nil
}

// clock returns the clock of a tombstone, the record of the key with the ordinal last. It returns
// nil if the tombstone's retention has not begun, or if the segment's .dead file cannot be used.
func (s *keyLookup) clock(i int, reader *keys.Reader, b keys.Batch,
	last uint32) *progress.TombstoneClock {
	c, h := s.compaction, s.list.Handles[i]
	content := c.Dead.Load(h.Segment)
	if content == nil || s.spend(len(content)) != nil {
		return nil
	}
	d, err := clean.DecodeDeadFile(content)
	if err != nil || d.Identity != reader.Identity().Digest || d.Base != h.Base() ||
		d.LogBytes != h.SizeBytes() || d.ComputedThrough > s.log.Offsets.LogEnd() ||
		d.Lineage != s.log.EpochBelow(d.ComputedThrough) {
		return nil
	}
	for _, set := range d.Removable {
		for ordinal := range set.All {
			if ordinal == last {
				return c.Progress.ClockOf(set, b)
			}
		}
	}
	return nil
}
