package clean

import (
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/record"
)

// Sizes of reads. Two batches are read with one request if the gap between them is below
// gapBytesMax, because reading such a gap costs less than a second request. A request reads at most
// chunkBytesMax, which is large enough for the full throughput of a disk.
const (
	gapBytesMax   = 128 << 10
	chunkBytesMax = 1 << 20
)

// About one in sampleShare fully dead batches is nevertheless read and compared with the sidecar
// (F6).
const sampleShare = 1000

// readBatch is a batch that a rewrite reads, with the rewrite's action for the batch.
type readBatch struct {
	keys.Batch
	action batchAction
	dead   int // number of dead records
	needed int // bytes to read: the whole batch or only its header
}

// end returns the file position after the needed bytes.
func (b readBatch) end() int64 { return b.Position + int64(b.needed) }

// batchReader reads the batches of a segment that a rewrite needs, in log order, with one read for
// adjacent batches. It skips dead batches, except for a sample (see sampleShare). Before it calls
// visit for a batch, it compares the batch with the sidecar and verifies the batch's checksum.
//
// Invariant: pending batches are in file order, with gaps of less than gapBytesMax.
type batchReader struct {
	plan   *plan
	policy batchPolicy
	io     *ioMeter
	memory *memory
	visit  func(r readBatch, b record.Batch) error
	stage  func(Step) // optional
	staged int64      // position of the last step

	pending []readBatch
	buffer  []byte
}

// run reads the segment's batches and visits them.
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
	if err == nil {
		err = r.flush()
	}
	if err == nil {
		r.step(r.plan.segment.SizeBytes())
	}
	return err
}

// stepBytes is the number of bytes of a segment between two steps of the kind StepRead.
const stepBytes = 64 << 10

// step reports that the rewrite has processed the segment up to a position.
func (r *batchReader) step(position int64) {
	if r.stage != nil {
		r.staged = position
		r.stage(Step{Kind: StepRead, Base: r.plan.segment.Base(), Position: position})
	}
}

// add queues a batch. If one read cannot cover both the pending batches and this batch, add first
// reads and visits the pending batches.
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

// flush reads the pending batches with one read and visits them. It computes the size of its buffer
// from the sidecar, and checks this size against the segment's size before it allocates the buffer.
func (r *batchReader) flush() error {
	if len(r.pending) == 0 {
		return nil
	}
	from, to := r.pending[0].Position, r.pending[len(r.pending)-1].end()
	if from < 0 || to > r.plan.segment.SizeBytes() {
		return &sidecarError{r.plan.segment,
			fmt.Sprintf("sidecar lists a batch that ends at position %d, segment ends at %d", to,
				r.plan.segment.SizeBytes())}
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
		if next.end()-r.staged >= stepBytes {
			r.step(next.end())
		}
	}
	r.memory.touch(int64(cap(r.buffer)))
	r.pending = r.pending[:0]
	return nil
}

// verify compares a batch with its entry in the sidecar and verifies the batch's checksum (I42). If
// only the header of the batch was read, the checksum cannot be verified.
func (r *batchReader) verify(next readBatch, b record.Batch) error {
	size, err := record.PeekSize(b)
	if err != nil || size != next.SizeBytes || b.BaseOffset() != next.BaseOffset ||
		b.LastOffset() != next.LastOffset || b.CRC() != next.CRC {
		return &sidecarError{r.plan.segment, fmt.Sprintf(
			"batch at position %d differs from its entry in the sidecar", next.Position)}
	}
	if next.needed < size {
		return nil
	}
	return b.CheckCRC()
}
