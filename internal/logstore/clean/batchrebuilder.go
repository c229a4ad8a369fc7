package clean

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/record"
)

// batchRebuilder applies the action for each batch: it returns the batch to write, which is
// unchanged, rebuilt or reduced to its header. It compares every record that it decodes with the
// sidecar.
type batchRebuilder struct {
	rules         *Rules
	now           time.Time
	hasher        keys.Hasher
	batchBytesMax int
	memory        *memory
	stats         *Stats // shared with the pass; the rebuilder updates BatchesDecoded
	builder       *record.Builder

	// State of the current source segment.
	plan        *plan
	removable   *mergeIterator
	records     *keys.Records
	nextOrdinal uint32      // ordinal of the next record that records returns
	decoded     bitmap      // decoded records that have a key; nil before the first one
	entries     fingerprint // fingerprint of the decoded records that have a key
}

// begin starts a source segment.
func (r *batchRebuilder) begin(plan *plan) {
	r.plan, r.removable = plan, newMergeIterator(plan.removable)
	r.records, r.nextOrdinal = plan.keys.Records(), 0
	r.decoded, r.entries = nil, fingerprint{}
}

// end compares the decoded records of the source segment with the segment's sidecar.
func (r *batchRebuilder) end() error {
	if r.decoded == nil {
		return nil
	}
	r.memory.touch(int64(8 * len(r.decoded)))
	var known fingerprint
	it := r.plan.keys.Entries(keys.AllHashes)
	for it.Next() {
		if e := it.Entry(); r.decoded.has(e.Ordinal) {
			known.add(e.Hash, e.Ordinal, e.Tombstone)
		}
	}
	if err := it.Err(); err != nil {
		return r.plan.sidecarFault(err)
	}
	if known != r.entries {
		return &sidecarError{r.plan.segment,
			fmt.Sprintf("%d keys of decoded batches differ from their %d entries in the sidecar",
				r.entries.count, known.count)}
	}
	return nil
}

// apply returns the batch to write in place of batch b; ok is false if no batch is to be written.
// The returned batch is valid until the next call. A dropped batch is decoded only to compare its
// records with the sidecar.
func (r *batchRebuilder) apply(in readBatch, b record.Batch) (out record.Parts, ok bool,
	err error) {
	switch in.action {
	case dropBatch:
		return out, false, r.decode(in, b, func(*record.Record, uint32) {})
	case emptyBatch:
		r.builder.Reset(record.IdentityOf(b))
		out, err = r.encode(in)
		return out, true, err
	case rebuildBatch:
		out, err = r.rebuild(in, b)
		return out, true, err
	}
	if dense := r.rules.DenseCodec; dense != nil && b.Codec() != dense.Type && in.Records > 0 &&
		!b.Control() {
		out, err = r.rebuild(in, b)
		return out, true, err
	}
	return record.Whole(b), true, nil
}

// rebuild encodes a batch without its dead records. The offsets and timestamps of the records and
// the identity of the batch do not change (I9, docs/internals/format/batch.md).
func (r *batchRebuilder) rebuild(in readBatch, b record.Batch) (record.Parts, error) {
	id := record.IdentityOf(b)
	if err := r.setHorizon(in, &id); err != nil {
		return record.Parts{}, err
	}
	r.builder.SetCodec(r.codec(b))
	r.builder.Reset(id)
	if err := r.decode(in, b, func(rec *record.Record, ordinal uint32) {
		if !r.plan.dead.has(ordinal) {
			r.builder.Add(rec)
		}
	}); err != nil {
		return record.Parts{}, err
	}
	return r.encode(in)
}

// encode returns the batch in the builder. The result uses the builder's memory.
func (r *batchRebuilder) encode(in readBatch) (record.Parts, error) {
	out, err := r.builder.Encode()
	if err != nil {
		return record.Parts{}, err
	}
	held := int64(in.SizeBytes + r.builder.SizeBytes())
	if in.BodyBytes <= decodeWholeBytesMax {
		held += in.BodyBytes
	}
	r.memory.touch(held)
	return out, nil
}

// codec returns the codec and level of a rebuilt batch: Rules.DenseCodec if it is set; otherwise
// the batch's own codec if Rules.KeepCodec is set; otherwise the topic's codec.
func (r *batchRebuilder) codec(b record.Batch) (codec compress.Codec, level int) {
	if dense := r.rules.DenseCodec; dense != nil {
		return dense.Type, dense.Level
	}
	if r.rules.KeepCodec && b.Codec() != r.rules.Codec.Type {
		return b.Codec(), compress.LevelDefault // the topic's level applies only to the topic's codec
	}
	return r.rules.Codec.Type, r.rules.Codec.Level
}

// setHorizon sets the delete horizon of a rebuilt batch.
//
// Kafka's tools read the horizon. Passes use it as a lower bound (F2), even if the .dead file was
// lost. An existing horizon is kept as long as the batch contains a tombstone. A new horizon is one
// retention after the earliest time at which a tombstone of the batch became removable. If no
// tombstone is removable yet, the new horizon is one retention after this pass.
func (r *batchRebuilder) setHorizon(in readBatch, id *record.Identity) error {
	end, hasTombstone := in.FirstOrdinal+uint32(in.Records), false
	if r.plan.counts.Tombstones > 0 {
		var err error
		if hasTombstone, err = r.hasLiveTombstone(in.FirstOrdinal, end); err != nil {
			return err
		}
	}
	sinceMs := r.now.UnixMilli()
	for range r.removable.within(in.FirstOrdinal, end) {
		if !r.plan.dead.has(r.removable.ordinal) {
			sinceMs = min(sinceMs, r.removable.sinceMs)
		}
	}
	switch {
	case !hasTombstone:
		id.DeleteHorizonMs = 0
	case id.DeleteHorizonMs == 0:
		id.DeleteHorizonMs = sinceMs + r.rules.TombstoneRetention.Milliseconds()
	}
	return nil
}

// hasLiveTombstone reports whether one of the records [from, to) is a tombstone that remains. The
// ranges of successive calls must ascend.
func (r *batchRebuilder) hasLiveTombstone(from, to uint32) (found bool, err error) {
	for r.nextOrdinal < to {
		if !r.records.Next() {
			if err := r.records.Err(); err != nil {
				return false, r.plan.sidecarFault(err)
			}
			return false, &sidecarError{r.plan.segment,
				"sidecar has fewer record entries than its batch entries state"}
		}
		r.nextOrdinal = r.records.Ordinal() + 1
		found = found || r.nextOrdinal > from && r.records.Record().Tombstone &&
			!r.plan.dead.has(r.records.Ordinal())
	}
	return found, nil
}

// decodeWholeBytesMax is the largest decompressed size of a batch that is decompressed as a whole.
// The records of larger batches are decompressed one after the other, which is slower but needs
// memory for only one record.
const decodeWholeBytesMax = 4 << 20

// decode calls visit for each record of a batch with the record's ordinal, and adds the records
// that have a key to the fingerprint.
func (r *batchRebuilder) decode(in readBatch, b record.Batch,
	visit func(*record.Record, uint32)) error {
	if r.decoded == nil {
		r.decoded = newBitmap(r.plan.records())
	}
	ordinal, end := in.FirstOrdinal, in.FirstOrdinal+uint32(in.Records)
	err := r.eachRecord(in, b, func(rec *record.Record) error {
		if ordinal == end {
			return &sidecarError{r.plan.segment,
				fmt.Sprintf("batch at position %d has more records than its entry in the sidecar",
					in.Position)}
		}
		if rec.Key != nil {
			r.entries.add(r.hasher.Hash(rec.Key), ordinal, rec.Tombstone())
			r.decoded.set(ordinal)
		}
		visit(rec, ordinal)
		ordinal++
		return nil
	})
	r.stats.BatchesDecoded++
	if err == nil && ordinal != end || errors.Is(err, compress.ErrTooLarge) {
		err = &sidecarError{r.plan.segment,
			fmt.Sprintf("records of the batch at position %d differ from its entry in the sidecar",
				in.Position)}
	}
	return err
}

// decodeLimit returns the largest decompressed size up to which a batch is decoded. It exceeds
// batchBytesMax if the sidecar lists a larger size, because the batch was decoded under a higher
// limit when the sidecar was built.
func decodeLimit(batchBytesMax int, b keys.Batch) int {
	return int(max(int64(batchBytesMax), b.BodyBytes+16*int64(b.Records)+1024))
}

// eachRecord calls visit for each record of a batch.
func (r *batchRebuilder) eachRecord(in readBatch, b record.Batch,
	visit func(*record.Record) error) error {
	limit := decodeLimit(r.batchBytesMax, in.Batch)
	if in.BodyBytes <= decodeWholeBytesMax {
		return b.Records(limit, visit)
	}
	for rec, err := range b.Stream(bytes.NewReader(b[record.HeaderBytes:]), limit) {
		if err != nil {
			return err
		}
		if err := visit(rec); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint is a checksum of a set of sidecar entries that does not depend on their order. A
// rewrite compares the fingerprint of the decoded records with the fingerprint of the records'
// entries in the sidecar, from which the pass computed the dead records (F6). Key hashes depend on
// a secret salt, so a producer cannot construct two sets of entries with the same fingerprint.
type fingerprint struct {
	sum   uint64
	count int64
}

func (f *fingerprint) add(h keys.Hash, ordinal uint32, tombstone bool) {
	x := h.High ^ (uint64(h.Low)<<32|uint64(ordinal))*0x9e3779b97f4a7c15
	if tombstone {
		x++
	}
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	f.sum += x ^ x>>32
	f.count++
}
