package logstore

import (
	"errors"
	"io/fs"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
)

// sidecarHeaderBytes is the size of the header of a key sidecar.
const sidecarHeaderBytes = 256

// bySidecar finds the records of the key in segment i by its key sidecar. The result ok is false if
// the segment must be scanned, because it has no usable sidecar, or batches of unknown keys.
func (s *keyLookup) bySidecar(i int) (ok bool, err error) {
	h, c := s.list.handles[i], s.log.Compaction()
	if state := h.sidecarState(); state != nil && state.digest == 0 {
		return false, nil
	}
	if err := s.spend(sidecarHeaderBytes); err != nil {
		return false, err
	}
	reader, err := c.sidecars.open(h, true)
	switch {
	case errors.Is(err, errNoKeys):
		return false, nil
	case keys.Unusable(err), errors.Is(err, fs.ErrNotExist):
		return false, s.stillListed(h)
	case err != nil:
		return false, err
	}
	reader.OnRead(s.spend)
	ok, err = s.search(i, reader)
	if err = errors.Join(err, reader.Close()); keys.Unusable(err) {
		return false, s.stillListed(h)
	}
	return ok, err
}

// stillListed fails with errSegmentsChanged if a segment is no longer in the log.
func (s *keyLookup) stillListed(h *handle) error {
	list := s.log.acquire()
	if list == nil {
		return ErrClosed
	}
	defer list.release()
	if !slices.Contains(list.handles, h) {
		return errSegmentsChanged
	}
	return nil
}

// search finds the records by the entries of an open sidecar.
func (s *keyLookup) search(i int, reader *keys.Reader) (ok bool, err error) {
	if reader.Counts().Opaque > 0 {
		return false, nil
	}
	hash := s.log.Compaction().sidecars.salt.Load().Hasher().Hash(s.key)
	var ordinals []uint32 // ascending
	entries := reader.Entries(keys.Range{First: hash.High, Last: hash.High})
	for entries.Next() {
		if e := entries.Entry(); e.Hash == hash {
			ordinals = append(ordinals, e.Ordinal)
		}
	}
	if err := entries.Err(); err != nil || len(ordinals) == 0 {
		return true, err
	}
	batches, err := s.locate(i, reader, ordinals)
	if err != nil {
		return true, err
	}
	for _, b := range slices.Backward(batches) {
		if err := s.spend(b.header.SizeBytes); err != nil {
			return true, err
		}
		block := s.recent()
		if err := s.batch(i, b.batchAt, block); err != nil {
			return true, err
		}
		if n := len(block.records); n > 0 && block.records[n-1].Tombstone && !s.committed {
			block.records[n-1].Clock = s.clock(i, reader, b)
		}
		if err := s.take(block); err != nil || s.opts.Latest && s.committed {
			return true, err
		}
	}
	return true, nil
}

// locatedBatch is a batch with records of the key.
type locatedBatch struct {
	batchAt
	last      uint32 // ordinal of the last record of the key in it
	horizonMs int64
}

// locate returns the batches that contain the records with the given ordinals, ascending.
func (s *keyLookup) locate(i int, reader *keys.Reader, ordinals []uint32) ([]locatedBatch, error) {
	h := s.list.handles[i]
	if int64(reader.Counts().Records) == h.NextOffset()-h.Base() {
		return s.locateDense(h, ordinals)
	}
	var located []locatedBatch
	batches := reader.Batches()
	for len(ordinals) > 0 && batches.Next() {
		b := batches.Batch()
		end, last := b.FirstOrdinal+uint32(b.Records), -1
		for ; len(ordinals) > 0 && ordinals[0] < end; ordinals = ordinals[1:] {
			last = int(ordinals[0])
		}
		if last < 0 {
			continue
		}
		header, err := h.HeaderAt(b.Position)
		if err != nil {
			return nil, err
		}
		if header.CRC() != b.CRC || header.BaseOffset() != b.BaseOffset {
			return nil, keys.ErrStale
		}
		located = append(located, locatedBatch{batchAt{h, header}, uint32(last), b.HorizonMs})
	}
	return located, batches.Err()
}

// indexLookupBytes is about the number of bytes that a lookup by the offset index reads: some
// entries of the index, and the headers of one index interval.
const indexLookupBytes = 4 << 10

// locateDense is locate for a segment that has a record at each of its offsets: the cleaner has not
// rewritten it. So the ordinals give the offsets, and the offset index gives the positions.
func (s *keyLookup) locateDense(h *handle, ordinals []uint32) (located []locatedBatch, err error) {
	for _, ordinal := range ordinals {
		offset := h.Base() + int64(ordinal)
		if n := len(located); n > 0 && located[n-1].header.LastOffset() >= offset {
			located[n-1].last = ordinal
			continue
		}
		if err := s.spend(indexLookupBytes); err != nil {
			return nil, err
		}
		position, err := h.Position(offset)
		if err != nil {
			return nil, err
		}
		header, err := h.HeaderAt(position)
		if err != nil {
			return nil, err
		}
		horizonMs, _ := header.DeleteHorizon()
		located = append(located, locatedBatch{batchAt{h, header}, ordinal, horizonMs})
	}
	return located, nil
}

// clock returns the clock of a tombstone, the last record of the key in a batch; nil if its
// retention has not begun, or if the .dead file of its segment cannot be used.
func (s *keyLookup) clock(i int, reader *keys.Reader, b locatedBatch) *TombstoneClock {
	c, h := s.log.Compaction(), s.list.handles[i]
	content := c.loadDead(h.Segment)
	if content == nil || s.spend(len(content)) != nil {
		return nil
	}
	d, err := clean.DecodeDeadFile(content)
	if err != nil || d.Identity != reader.Identity().Digest || d.Base != h.Base() ||
		d.LogBytes != h.SizeBytes() || d.ComputedThrough > s.log.LogEnd() ||
		d.Lineage != c.epochBelow(d.ComputedThrough) {
		return nil
	}
	for _, set := range d.Removable {
		for ordinal := range set.All {
			if ordinal == b.last {
				return c.clockOf(set, b)
			}
		}
	}
	return nil
}

// clockOf returns the clock of a removable tombstone.
func (c *Compaction) clockOf(set clean.RemovableSet, b locatedBatch) *TombstoneClock {
	replicatedMs, ok := c.progress.forPass().Since(b.header.LastOffset())
	retention := c.Settings().TombstoneRetention.Milliseconds()
	return &TombstoneClock{Count: 1, SinceMs: set.SinceMs, Replicated: ok,
		GoesFromMs: max(max(set.SinceMs, replicatedMs)+retention, b.horizonMs)}
}
