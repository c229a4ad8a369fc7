package clean

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// rewrite makes new segments of a group and puts them in its place.
//
// Groups go in ascending order, and that alone makes a crash between two of them harmless: a tombstone lies above the values it
// deletes, so they are gone from the disk before it may go; and a value that supersedes lies above what it supersedes, in a segment
// that is complete until its own group's turn. What a pass did not come to is done by the next: nothing of it is remembered.
func (p *pass) rewrite(group []*plan) error {
	p.enter(Rewriting)
	out := &output{pass: p, base: group[0].segment.Base(), builder: record.NewBuilder(p.Codec, p.CodecLevel)}
	defer out.builder.Release()
	out.builder.CompressWith(p.Compress)
	sources, err := out.write(group)
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite segments from %d on: %w", out.base, err), out.discard())
	}
	p.enter(Committing)
	// Both are taken before: from Replace on the segments are the log's, which may close them at any time.
	size := sizeOf(out.sealed)
	before := sizeOf(sources)
	if err := p.Replace(sources, out.sealed); err != nil { // no discard: Replace owns the output, also now
		return fmt.Errorf("replace segments from %d on: %w", out.base, err)
	}
	p.stats.SegmentsRewritten += len(sources)
	p.stats.ReclaimedBytes += max(0, before-size)
	for _, plan := range group {
		p.stats.RecordsRemoved += plan.removed
		p.stats.TombstonesRemoved += plan.tombstones
		p.progress.ReclaimableBytes -= plan.reclaimableBytes()
		plan.free(&p.memory)
	}
	return nil
}

// sizeOf is the segments' size together.
func sizeOf(segments []*segment.Segment) (bytes int64) {
	for _, s := range segments {
		bytes += s.SizeBytes()
	}
	return bytes
}

// output is the segments that come of a group: one, or more if what lives does not fit one.
//
// Invariant: the first begins where the group's first segment did (I32), whether a record is left there or not.
type output struct {
	*pass
	base    int64
	current *segment.Segment   // nil before the first and after the last
	sealed  []*segment.Segment // ascending; those that are finished, or failed to be
	builder *record.Builder
}

// write writes all of a group and seals it. It returns the group's segments. After an error discard takes away what was
// written.
func (o *output) write(group []*plan) (sources []*segment.Segment, err error) {
	if err := o.begin(o.base); err != nil {
		return nil, err
	}
	for _, plan := range group {
		if err := o.copy(plan); err != nil {
			return nil, err
		}
		sources = append(sources, plan.segment)
	}
	if err := o.seal(); err != nil {
		return nil, err
	}
	modified := sources[len(sources)-1].ModTime() // I32: retention and lag go by it where there is no timestamp
	for _, s := range o.sealed {
		if err := s.SetModTime(modified); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// copy writes what lives of one segment. It reads the segment anew rather than keep its batches from resolve, which would
// need the log's size in memory; the plan is held against what is read (see plan), and any difference is ErrCorrupt.
func (o *output) copy(plan *plan) error {
	if plan.liveBytes == 0 { // every batch is dropped: there is nothing to read it for
		o.progress.DoneBytes += plan.segment.SizeBytes()
		return nil
	}
	next, first := 0, uint32(0)
	err := plan.segment.Scan(0, func(position int64, b record.Batch) error {
		if next == len(plan.batches) || int(plan.batches[next].sizeBytes) != len(b) {
			return fmt.Errorf("%w: the batch at position %d is not the one that was there before", record.ErrCorrupt, position)
		}
		entry := plan.batches[next]
		ordinal := first
		next++
		first += entry.records
		return o.batch(plan, b, entry, ordinal)
	})
	if err == nil && next != len(plan.batches) {
		err = fmt.Errorf("%w: segment %d has %d batches, and had %d before", record.ErrCorrupt, plan.segment.Base(), next, len(plan.batches))
	}
	return err
}

// batch does to a batch what was decided on it. Its records have the ordinals from first on. What is dropped was read too,
// as one scan reads all, and so it is accounted.
func (o *output) batch(plan *plan, b record.Batch, entry batchPlan, first uint32) error {
	if err := o.read(len(b)); err != nil {
		return err
	}
	if entry.fate == drop {
		return nil
	}
	// Checked once more although resolve did: what is copied now was read from the disk again (I42).
	if err := b.CheckCRC(); err != nil {
		return err
	}
	made := record.Whole(b)
	if entry.fate == rebuild {
		var err error
		if made, err = o.rebuild(plan, b, entry, first); err != nil {
			return err
		}
	}
	return o.append(made)
}

// rebuild makes a batch without its dead records. What it returns is valid until the next call. Offsets, absolute timestamps
// and the batch's identity stay (I9, reference 1.2); the limit is the one resolve read it with, so it cannot be too large
// now.
func (o *output) rebuild(plan *plan, b record.Batch, entry batchPlan, first uint32) (record.Parts, error) {
	o.builder.SetCodec(o.codec(b))
	id := record.IdentityOf(b)
	id.DeleteHorizonMs = entry.horizonMs
	o.builder.Reset(id)
	ordinal, decoded := first, 0
	err := b.Records(o.BatchBytesMax, func(r *record.Record) error {
		if !plan.dead.has(ordinal) {
			o.builder.Add(r)
		}
		ordinal++
		decoded += sizeOfRecord(r)
		return nil
	})
	if err != nil {
		return record.Parts{}, err
	}
	made, err := o.builder.Encode()
	if err != nil {
		return record.Parts{}, err
	}
	o.memory.touch(int64(len(b) + decoded + o.builder.SizeBytes()))
	return made, nil
}

// codec is what a batch is rebuilt in: the topic's codec and level, or the batch's own codec.
func (p *pass) codec(b record.Batch) (codec compress.Codec, level int) {
	if p.KeepCodec && b.Codec() != p.Codec {
		return b.Codec(), compress.LevelDefault // the level belongs to the topic's codec
	}
	return p.Codec, p.CodecLevel
}

// append writes a batch, to a new segment if it would make the current one too large (I31: rebuilding may make batches
// larger) or its offsets do not fit there. A batch larger than SegmentBytes gets a segment of its own: it cannot be split.
func (o *output) append(b record.Parts) error {
	size := b.SizeBytes()
	full := o.current.SizeBytes()+int64(size) > o.SegmentBytes
	if o.current.SizeBytes() > 0 && full || !o.current.Fits(b) {
		if err := o.seal(); err != nil {
			return err
		}
		if err := o.begin(b.BaseOffset()); err != nil {
			return err
		}
	}
	if err := o.spend(size); err != nil {
		return err
	}
	o.stats.WrittenBytes += int64(size)
	return o.current.AppendParts(b)
}

// begin creates the next output segment, with the suffix that a restart removes.
func (o *output) begin(base int64) (err error) {
	if o.current, err = o.Create(base); err != nil {
		return fmt.Errorf("create segment %d: %w", base, err)
	}
	return nil
}

// seal finishes the current segment's indexes. It counts as sealed even if that fails, so that discard finds it.
func (o *output) seal() error {
	o.sealed = append(o.sealed, o.current)
	o.current = nil
	return o.sealed[len(o.sealed)-1].Seal()
}

// discard deletes what was written, when it will not be part of the log (I37). It tries all of it, and returns the faults
// joined.
func (o *output) discard() error {
	all := o.sealed
	if o.current != nil {
		all = append(all, o.current)
	}
	var failed []error
	for _, s := range all {
		failed = append(failed, s.Remove(), s.Close())
	}
	return errors.Join(failed...)
}
