package clean

import (
	"context"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// output is the segments that come of a group: one, or more if what lives does not fit one.
//
// Invariant: the first begins where the group's first segment did (I32), whether a record is left
// there or not.
type output struct {
	*pass
	group   []*plan
	pieces  []*piece // ascending; the last is written to until it is sealed
	builder *record.Builder
	// coldSources is how many of the group were not in the page cache.
	coldSources int

	// Of the plan that is being copied.
	plan    *plan
	first   uint32 // its first ordinal that goes to the last piece
	records *keys.Records
	next    uint32 // ordinal that records gives next
	clock   *clock // its lonely tombstones
	decoded bitmap
	found   fingerprint
}

// piece is one output segment.
type piece struct {
	segment *segment.Segment
	sidecar *keys.Derivation // nil if none is made
	sealed  bool
	parts   []part // what it was made from, in the order of the log
	binding Binding
	bound   bool // binding is known
}

// part is the ordinals [first, end) of a source, less those that are dead.
type part struct {
	plan       *plan
	first, end uint32
}

func newOutput(p *pass, group []*plan) *output {
	o := &output{pass: p, group: group,
		builder: record.NewBuilder(p.Rules.Codec.Type, p.Rules.Codec.Level)}
	o.builder.CompressWith(p.Env.Compress)
	return o
}

// segments are the output's, ascending.
func (o *output) segments() []*segment.Segment {
	all := make([]*segment.Segment, len(o.pieces))
	for i, piece := range o.pieces {
		all[i] = piece.segment
	}
	return all
}

// last is the piece that is written to.
func (o *output) last() *piece { return o.pieces[len(o.pieces)-1] }

// write writes all of the group and seals it. After an error discard takes away what was written.
func (o *output) write() error {
	if err := o.begin(o.group[0].segment.Base()); err != nil {
		return err
	}
	for _, plan := range o.group {
		if err := o.copy(plan); err != nil {
			return err
		}
	}
	return o.seal()
}

// copy writes what lives of one segment.
func (o *output) copy(plan *plan) error {
	o.plan, o.first, o.next, o.records, o.clock = plan, 0, 0, plan.keys.Records(),
		newClock(plan.lonely)
	o.decoded, o.found = nil, fingerprint{}
	reader := batchReader{pass: o.pass, plan: plan, visit: o.batch}
	if plan.cache.cold() {
		o.coldSources++
	}
	if err := reader.run(); err != nil {
		return err
	}
	o.endPart(plan.records())
	if o.decoded != nil {
		o.memory.touch(int64(8 * len(o.decoded)))
	}
	return o.verify(plan, o.decoded, o.found)
}

// endPart notes which ordinals of the source went to the last piece.
func (o *output) endPart(end uint32) {
	o.last().parts = append(o.last().parts, part{o.plan, o.first, end})
	o.first = end
}

// batch does to a batch what was decided on it. A dead one is here to be looked at only.
func (o *output) batch(w wanted, b record.Batch) error {
	switch w.fate {
	case drop:
		return o.decode(w, b, func(*record.Record, uint32) {})
	case empty:
		o.builder.Reset(record.IdentityOf(b))
		return o.built(w)
	case rebuild:
		return o.rebuild(w, b)
	}
	if o.Rules.DenseCodec != nil && b.Codec() != o.Rules.DenseCodec.Type && w.Records > 0 && !b.Control() {
		return o.rebuild(w, b)
	}
	return o.append(w, record.Whole(b))
}

// rebuild makes a batch without its dead records. Offsets, absolute timestamps and the batch's
// identity stay (I9, reference 1.2).
func (o *output) rebuild(w wanted, b record.Batch) error {
	id := record.IdentityOf(b)
	if err := o.horizon(w, &id); err != nil {
		return err
	}
	o.builder.SetCodec(o.codec(b))
	o.builder.Reset(id)
	if err := o.decode(w, b, func(r *record.Record, ordinal uint32) {
		if !o.plan.dead.has(ordinal) {
			o.builder.Add(r)
		}
	}); err != nil {
		return err
	}
	return o.built(w)
}

// built writes the batch that the builder has, from where it was made.
func (o *output) built(w wanted) error {
	made, err := o.builder.Encode()
	if err != nil {
		return err
	}
	o.memory.touch(int64(w.SizeBytes+o.builder.SizeBytes()) + w.BodyBytes)
	return o.append(w, made)
}

// horizon sets the horizon a rebuilt batch is stamped with.
//
// A stamp tells Kafka's tools, and a log whose .dead file is lost, that a tombstone has a time. One
// that is there stays as long as there is a tombstone; where there is none the time is that of the
// first tombstone that is lonely, or begins now.
func (o *output) horizon(w wanted, id *record.Identity) error {
	end, tombstones := w.FirstOrdinal+uint32(w.Records), false
	if o.plan.counts.Tombstones > 0 {
		var err error
		if tombstones, err = o.tombstones(w.FirstOrdinal, end); err != nil {
			return err
		}
	}
	sinceMs := o.Now.UnixMilli()
	for range o.clock.within(w.FirstOrdinal, end) {
		if !o.plan.dead.has(o.clock.ordinal) {
			sinceMs = min(sinceMs, o.clock.sinceMs)
		}
	}
	switch {
	case !tombstones:
		id.DeleteHorizonMs = 0
	case id.DeleteHorizonMs == 0:
		id.DeleteHorizonMs = sinceMs + o.Rules.TombstoneRetention.Milliseconds()
	}
	return nil
}

// tombstones tells whether one of the records [from, to) is a tombstone that stays. It is asked for
// ascending ranges.
func (o *output) tombstones(from, to uint32) (found bool, err error) {
	for o.next < to {
		if !o.records.Next() {
			if err := o.records.Err(); err != nil {
				return false, o.plan.sidecarFault(err)
			}
			return false, &sidecarError{o.plan.segment, "it has fewer records than its batches"}
		}
		o.next = o.records.Ordinal() + 1
		found = found || o.next > from && o.records.Record().Tombstone &&
			!o.plan.dead.has(o.records.Ordinal())
	}
	return found, nil
}

// decode visits the records of a batch, with their ordinals, and adds them to the fingerprint. The
// limit is what the sidecar says of the batch: it was decoded once when that was made, so it cannot
// be too large now, whatever the limits are.
func (o *output) decode(w wanted, b record.Batch, visit func(*record.Record, uint32)) error {
	if o.decoded == nil {
		o.decoded = newBitmap(o.plan.records())
	}
	limit := max(int64(o.Limits.BatchBytesMax), w.BodyBytes+16*int64(w.Records)+1024)
	ordinal, end := w.FirstOrdinal, w.FirstOrdinal+uint32(w.Records)
	err := b.Records(int(limit), func(r *record.Record) error {
		if ordinal == end {
			return &sidecarError{o.plan.segment,
				fmt.Sprintf("the batch at position %d has more records", w.Position)}
		}
		if r.Key != nil {
			o.found.add(o.Hasher.Hash(r.Key), ordinal, r.Tombstone())
			o.decoded.set(ordinal)
		}
		visit(r, ordinal)
		ordinal++
		return nil
	})
	o.stats.BatchesDecoded++
	if err == nil && ordinal != end || errors.Is(err, compress.ErrTooLarge) {
		err = &sidecarError{o.plan.segment,
			fmt.Sprintf("the batch at position %d has other records", w.Position)}
	}
	return err
}

// codec is what a batch is rebuilt in: the denser one of the clean section, the topic's, or its
// own.
func (p *pass) codec(b record.Batch) (codec compress.Codec, level int) {
	if dense := p.Rules.DenseCodec; dense != nil {
		return dense.Type, dense.Level
	}
	if p.Rules.KeepCodec && b.Codec() != p.Rules.Codec.Type {
		return b.Codec(), compress.LevelDefault // the level belongs to the topic's codec
	}
	return p.Rules.Codec.Type, p.Rules.Codec.Level
}

// append writes a batch, to a new segment if it would make the current one too large (I31:
// rebuilding may make batches larger) or its offsets do not fit there. A batch larger than
// SegmentBytes gets a segment of its own: it cannot be split.
func (o *output) append(w wanted, b record.Parts) error {
	bytes := b.SizeBytes()
	if size := o.last().segment.SizeBytes(); size > 0 && size+int64(bytes) > o.Rules.SegmentBytes {
		if err := o.roll(w); err != nil {
			return err
		}
	}
	position := o.last().segment.SizeBytes()
	err := o.last().segment.AppendParts(b)
	if errors.Is(err, segment.ErrFull) {
		if err = o.roll(w); err == nil {
			position = 0
			err = o.last().segment.AppendParts(b)
		}
	}
	if err != nil {
		return err
	}
	if sidecar := o.last().sidecar; sidecar != nil {
		described := keys.Describe(b.Batch, position)
		described.SizeBytes = bytes
		if described.Opaque = w.Opaque; w.Opaque {
			described.Records = 0
		}
		if err := sidecar.Append(described); err != nil {
			return err
		}
	}
	o.stats.LogWrittenBytes += int64(bytes)
	return o.spend(bytes)
}

// roll goes on in another segment, which begins with the batch.
func (o *output) roll(w wanted) error {
	o.endPart(w.FirstOrdinal)
	if err := o.seal(); err != nil {
		return err
	}
	return o.begin(w.BaseOffset)
}

// begin creates the next output segment, with the suffix that a restart removes.
func (o *output) begin(base int64) error {
	s, err := o.Env.Create(base)
	if err != nil {
		return fmt.Errorf("create segment %d: %w", base, err)
	}
	o.pieces = append(o.pieces, &piece{segment: s})
	if o.Env.DeriveSidecar == nil {
		return nil
	}
	if o.last().sidecar, err = o.Env.DeriveSidecar(base); err != nil {
		return fmt.Errorf("create key sidecar of segment %d: %w", base, err)
	}
	return nil
}

// seal finishes the last segment's indexes.
func (o *output) seal() error {
	if err := o.addAborted(o.last()); err != nil {
		return err
	}
	o.last().sealed = true
	return o.last().segment.Seal()
}

// finish makes the sidecars, and whatever is left to do before the commit.
func (o *output) finish() error {
	// I32: retention and lag go by it where there is no timestamp
	modified := o.group[len(o.group)-1].segment.ModTime()
	for _, piece := range o.pieces {
		if err := piece.segment.SetModTime(modified); err != nil {
			return err
		}
		if err := o.derive(piece); err != nil {
			return err
		}
	}
	if err := o.letGo(); err != nil {
		return err
	}
	return o.checkProducers(o.group)
}

// derive writes the sidecar of a piece: the entries of its sources, less those that went. No key is
// hashed again.
func (o *output) derive(piece *piece) error {
	if piece.sidecar == nil {
		return nil
	}
	var sources []keys.Source
	for _, part := range piece.parts {
		if part.first < part.end {
			sources = append(sources,
				keys.Source{Keys: part.plan.keys, First: part.first, End: part.end,
					Removed: part.plan.dead.has})
		}
	}
	name := o.Env.SidecarName(piece.segment.Base())
	counts, err := piece.sidecar.Finish(o.ctx, sources, name,
		keys.Options{Spend: func(_ context.Context, n int) error { return o.sidecarWritten(n) }})
	if err != nil {
		return fmt.Errorf("derive key sidecar of segment %d: %w", piece.segment.Base(), err)
	}
	id := piece.sidecar.Identity()
	piece.binding = Binding{Base: id.Base, LogBytes: id.LogBytes, Identity: id.Digest,
		Records: uint32(counts.Records)}
	piece.bound = true
	return piece.sidecar.Close()
}

// discard deletes what was written, when it will not be part of the log (I37). It tries all of it,
// and returns the faults joined.
func (o *output) discard() error {
	var failed []error
	for _, piece := range o.pieces {
		if piece.sidecar != nil {
			failed = append(failed, piece.sidecar.Close())
		}
		failed = append(failed, piece.segment.Remove(), piece.segment.Close())
	}
	return errors.Join(failed...)
}
