package clean

import (
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/record"
)

// How batches are read. A gap that is read over costs less than a second request; a chunk is as
// much as a disk reads at full speed.
const (
	gapBytesMax   = 128 << 10
	chunkBytesMax = 1 << 20
)

// sampleShare is how many wholly dead batches are believed for one that is read and held against
// the sidecar (F6).
const sampleShare = 1000

// wanted is a batch that is read, and why.
type wanted struct {
	keys.Batch
	fate fate
	dead int // of its records
	read int // bytes of it that are needed: all, or the header alone
}

// end is the position behind what is needed.
func (w wanted) end() int64 { return w.Position + int64(w.read) }

// batchReader reads the batches of a segment that are needed, in order, and several at once if they
// lie near each other. Batches that are dead are not read.
//
// Invariant: pending lie in the order of the file, and no more than gapBytesMax apart.
type batchReader struct {
	*pass
	plan    *plan
	pending []wanted
	buffer  []byte
	visit   func(w wanted, b record.Batch) error
}

// run goes through the segment.
func (r *batchReader) run() error {
	err := r.plan.batches(func(b keys.Batch) error {
		fate, dead := r.fateOf(r.plan, b)
		w := wanted{Batch: b, fate: fate, dead: dead, read: b.SizeBytes}
		switch {
		case fate == empty:
			w.read = record.HeaderBytes
		case fate == drop && (b.Records == 0 || b.Marker != keys.NoMarker || b.CRC%sampleShare != 0):
			return nil
		}
		return r.add(w)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// add takes one more batch, and reads those before it if it lies too far away from them.
func (r *batchReader) add(w wanted) error {
	if n := len(r.pending); n > 0 {
		gap := w.Position - r.pending[n-1].end()
		if gap >= gapBytesMax || w.end()-r.pending[0].Position > chunkBytesMax {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	r.pending = append(r.pending, w)
	return nil
}

// flush reads what is pending, at once, and visits it. A batch is believed to be as large as the
// sidecar says, up to the end of the file.
func (r *batchReader) flush() error {
	if len(r.pending) == 0 {
		return nil
	}
	from, to := r.pending[0].Position, r.pending[len(r.pending)-1].end()
	if from < 0 || to > r.plan.segment.SizeBytes() {
		return &sidecarError{r.plan.segment,
			fmt.Sprintf("it has batches up to position %d of %d", to, r.plan.segment.SizeBytes())}
	}
	if int64(cap(r.buffer)) < to-from {
		r.buffer = make([]byte, max(to-from, gapBytesMax))
	}
	block := r.buffer[:to-from]
	if n, err := r.plan.segment.File().ReadAt(block, from); n < len(block) {
		if err == io.EOF { //nolint:errorlint // ReadAt returns it bare
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read segment %d at position %d: %w", r.plan.segment.Base(), from, err)
	}
	r.plan.cache.read(from, to)
	if err := r.logRead(len(block)); err != nil {
		return err
	}
	for _, w := range r.pending {
		b := record.Batch(block[w.Position-from:][:w.read:w.read])
		if err := r.check(w, b); err != nil {
			return err
		}
		if err := r.visit(w, b); err != nil {
			return err
		}
	}
	r.memory.touch(int64(cap(r.buffer)))
	r.pending = r.pending[:0]
	return nil
}

// check holds a batch against the sidecar, which was made of the batch that was there then, and
// against its checksum (I42). Of one of which the header alone is needed that must do.
func (r *batchReader) check(w wanted, b record.Batch) error {
	size, err := record.PeekSize(b)
	if err != nil || size != w.SizeBytes || b.BaseOffset() != w.BaseOffset ||
		b.LastOffset() != w.LastOffset || b.CRC() != w.CRC {
		return &sidecarError{r.plan.segment,
			fmt.Sprintf("the batch at position %d is not the one it was made for", w.Position)}
	}
	if w.read < size {
		return nil
	}
	return b.CheckCRC()
}
