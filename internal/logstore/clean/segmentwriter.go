package clean

import (
	"context"
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// segmentWriter writes the output segments of one rewrite group, with their transaction indexes and
// sidecars. It starts another segment when the current one is full.
//
// Invariant: the first output segment has the base offset of the group's first source (I32),
// whether or not a record remains there.
type segmentWriter struct {
	env          *Env // Create, DeriveSidecar and SidecarName
	segmentBytes int64
	io           *ioMeter
	// remains reports whether one of the sources' aborted transactions still needs an index entry.
	remains func(segment.AbortedTxn) bool

	outputs []*outputSegment // ascending; the last output is written to until it is sealed
	source  *plan            // the source whose batches are being written
	// first is the lowest ordinal of source that is written to the last output.
	first uint32
}

// outputSegment is one segment that a rewrite produces.
type outputSegment struct {
	segment *segment.Segment
	sidecar *keys.Derivation // nil if no sidecar is derived
	parts   []sourcePart     // source records from which the segment was written, in log order
	binding Binding          // valid if bound
	bound   bool
}

// sourcePart is the range of ordinals [first, end) of a source. The live records of the range are
// in one output segment.
type sourcePart struct {
	plan       *plan
	first, end uint32
}

// segments returns the output segments in ascending order.
func (w *segmentWriter) segments() []*segment.Segment {
	all := make([]*segment.Segment, len(w.outputs))
	for i, out := range w.outputs {
		all[i] = out.segment
	}
	return all
}

// last returns the output segment to which the writer appends.
func (w *segmentWriter) last() *outputSegment { return w.outputs[len(w.outputs)-1] }

// create creates the next output segment. Its file name has a suffix that marks the segment as
// unfinished. After a crash, the next start of the broker deletes unfinished segments.
func (w *segmentWriter) create(base int64) error {
	s, err := w.env.Create(base)
	if err != nil {
		return fmt.Errorf("create segment %d: %w", base, err)
	}
	w.outputs = append(w.outputs, &outputSegment{segment: s})
	if w.env.DeriveSidecar == nil {
		return nil
	}
	if w.last().sidecar, err = w.env.DeriveSidecar(base); err != nil {
		return fmt.Errorf("create key sidecar of segment %d: %w", base, err)
	}
	return nil
}

// beginSource must be called before the first batch of a source is appended.
func (w *segmentWriter) beginSource(plan *plan) { w.source, w.first = plan, 0 }

// endPart adds the part of the source that ends below ordinal end to the last output.
func (w *segmentWriter) endPart(end uint32) {
	w.last().parts = append(w.last().parts, sourcePart{w.source, w.first, end})
	w.first = end
}

// append writes a batch. It rolls first if the batch would make the segment larger than
// segmentBytes, or if the batch's offsets do not fit into the segment. The size has to be checked,
// because rebuilding can enlarge batches (I31). A batch larger than segmentBytes is written to a
// separate segment, because it cannot be split.
func (w *segmentWriter) append(in readBatch, b record.Parts) error {
	bytes := b.SizeBytes()
	if size := w.last().segment.SizeBytes(); size > 0 && size+int64(bytes) > w.segmentBytes {
		if err := w.roll(in); err != nil {
			return err
		}
	}
	position := w.last().segment.SizeBytes()
	err := w.last().segment.AppendParts(b)
	if errors.Is(err, segment.ErrFull) {
		if err = w.roll(in); err == nil {
			position = 0
			err = w.last().segment.AppendParts(b)
		}
	}
	if err != nil {
		return err
	}
	if sidecar := w.last().sidecar; sidecar != nil {
		described := keys.Describe(b.Batch, position)
		described.SizeBytes = bytes
		if described.Opaque = in.Opaque; in.Opaque {
			described.Records = 0
		}
		if err := sidecar.Append(described); err != nil {
			return err
		}
	}
	return w.io.logWritten(bytes)
}

// roll seals the last output and creates the next one, which will begin with the given batch.
func (w *segmentWriter) roll(next readBatch) error {
	w.endPart(next.FirstOrdinal)
	if err := w.seal(); err != nil {
		return err
	}
	return w.create(next.BaseOffset)
}

// seal writes the transaction index of the last output and seals it.
func (w *segmentWriter) seal() error {
	if err := w.writeTxnIndex(w.last()); err != nil {
		return err
	}
	return w.last().segment.Seal()
}

// writeTxnIndex writes the transaction index of an output segment. The index contains an entry for
// each abort marker in the output whose transaction still has batches in the log (I22).
func (w *segmentWriter) writeTxnIndex(out *outputSegment) error {
	end := out.segment.NextOffset()
	var failed error
	for _, part := range out.parts {
		_, err := part.plan.segment.Aborted(out.segment.Base(), math.MaxInt64,
			func(a segment.AbortedTxn) {
				if failed == nil && a.LastOffset < end && w.remains(a) {
					failed = out.segment.AddAborted(a)
				}
			})
		if err != nil {
			return err
		}
	}
	return failed
}

// deriveSidecar writes an output segment's sidecar from the sidecars of its sources, without the
// entries of removed records. So no key is hashed again.
func (w *segmentWriter) deriveSidecar(out *outputSegment) error {
	if out.sidecar == nil {
		return nil
	}
	var sources []keys.DerivationSource
	for _, part := range out.parts {
		if part.first < part.end {
			sources = append(sources,
				keys.DerivationSource{Keys: part.plan.keys, First: part.first, End: part.end,
					Removed: part.plan.dead.has})
		}
	}
	name := w.env.SidecarName(out.segment.Base())
	throttle := func(_ context.Context, n int) error { return w.io.sidecarWritten(n) }
	counts, err := out.sidecar.Finish(w.io.ctx, sources, name, keys.Options{Throttle: throttle})
	if err != nil {
		return fmt.Errorf("derive key sidecar of segment %d: %w", out.segment.Base(), err)
	}
	id := out.sidecar.Identity()
	out.binding = Binding{Base: id.Base, LogBytes: id.LogBytes, Identity: id.Digest,
		Records: uint32(counts.Records)}
	out.bound = true
	return out.sidecar.Close()
}

// discard deletes the output of a failed rewrite (I37). It attempts every deletion and joins the
// errors.
func (w *segmentWriter) discard() error {
	var failed []error
	for _, out := range w.outputs {
		if out.sidecar != nil {
			failed = append(failed, out.sidecar.Close())
		}
		failed = append(failed, out.segment.Remove(), out.segment.Close())
	}
	return errors.Join(failed...)
}
