package clean

import (
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/record"
)

// Sizes of reads. Reading over a gap costs less than a second request up to gapBytesMax, and a disk
// reads chunkBytesMax at full speed.
const (
	gapBytesMax   = 128 << 10
	chunkBytesMax = 1 << 20
)

// sampleShare: one in so many fully dead batches is read and compared with the sidecar (F6).
const sampleShare = 1000

// readBatch is a batch that a rewrite reads, with the action of the rewrite for this batch.
type readBatch struct {
	keys.Batch
	action batchAction
	dead   int // records
	needed int // bytes to read: the whole batch, or the header only
}

// end is the position after the needed bytes.
func (b readBatch) end() int64 { return b.Position + int64(b.needed) }

// batchReader reads the batches of a segment that a rewrite needs, in log order, with one read for
// neighbouring batches. It skips dead batches. It compares each batch with the sidecar and checks
// its checksum before it calls visit.
//
// Invariant: pending batches are in file order, with gaps of less than gapBytesMax.
type batchReader struct {
	plan   *plan
	policy batchPolicy
	io     *ioMeter
	memory *memory
	visit  func(r readBatch, b record.Batch) error

	pending []readBatch
	buffer  []byte
}

// run reads the segment.
func (r *batchReader) run() error {
	err := r.plan.batches(func(b keys.Batch) error {
		action, dead := r.policy.action(r.plan, b)
		next := readBatch{Batch: b, action: action, dead: dead, needed: b.SizeBytes}
		switch {
		case action == emptyBatch:
			next.needed = record.HeaderBytes
		case action == dropBatch &&
			(b.Records == 0 || b.Marker != keys.NoMarker || b.CRC%sampleShare != 0):
			return nil
		}
		return r.add(next)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// add queues a batch. If the batch is too far away from the pending batches, add reads those first.
func (r *batchReader) add(next readBatch) error {
	if n := len(r.pending); n > 0 {
		gap := next.Position - r.pending[n-1].end()
		if gap >= gapBytesMax || next.end()-r.pending[0].Position > chunkBytesMax {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	r.pending = append(r.pending, next)
	return nil
}

// flush reads the pending batches at once and visits them. It allocates by the sizes in the
// sidecar, which cannot exceed the file.
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
		if err == io.EOF { //nolint:errorlint // ReadAt returns io.EOF unwrapped
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read segment %d at position %d: %w", r.plan.segment.Base(), from, err)
	}
	r.plan.cache.read(from, to)
	if err := r.io.logRead(len(block)); err != nil {
		return err
	}
	for _, next := range r.pending {
		b := record.Batch(block[next.Position-from:][:next.needed:next.needed])
		if err := r.verify(next, b); err != nil {
			return err
		}
		if err := r.visit(next, b); err != nil {
			return err
		}
	}
	r.memory.touch(int64(cap(r.buffer)))
	r.pending = r.pending[:0]
	return nil
}

// verify compares a batch with the sidecar and checks its checksum (I42). If only the header was
// read, there is no checksum to check.
func (r *batchReader) verify(next readBatch, b record.Batch) error {
	size, err := record.PeekSize(b)
	if err != nil || size != next.SizeBytes || b.BaseOffset() != next.BaseOffset ||
		b.LastOffset() != next.LastOffset || b.CRC() != next.CRC {
		return &sidecarError{r.plan.segment, fmt.Sprintf(
			"the batch at position %d is not the one it was built from", next.Position)}
	}
	if next.needed < size {
		return nil
	}
	return b.CheckCRC()
}
