package clean

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// resolve reads every batch below the bound once, and marks in the plans which records are dead, which are tombstones, and
// which tombstones have older records. It changes nothing on disk, so whatever is wrong with the log ends the pass
// harmlessly.
//
// The dirty section goes first although it lies above. In the order of the log the table would have to hold the keys of the
// clean section, which is most of the log; this way it holds those of the dirty section, and the clean one is only looked
// up.
func (p *pass) resolve() error {
	r := &resolver{pass: p, hasher: newHasher(p.HashKey), table: table{memory: &p.memory}}
	defer r.table.free()
	firstDirty := p.firstDirtySegment()
	p.enter(Indexing)
	for i := firstDirty; i < len(p.plans); i++ {
		if err := r.segment(i, r.index); err != nil {
			return err
		}
	}
	p.enter(Deduplicating)
	for i := range firstDirty {
		if err := r.segment(i, r.probe); err != nil {
			return err
		}
	}
	return nil
}

// firstDirtySegment is the segment that holds FirstDirty. That it may hold clean records too is no harm: they are indexed in
// order, like the others.
func (p *pass) firstDirtySegment() int {
	for i := range p.plans {
		if p.end(i) > p.FirstDirty {
			return i
		}
	}
	return len(p.plans)
}

// end is where segment i ends, exclusive: at the base of the next, for offsets between them are gone or were never used.
func (p *pass) end(i int) int64 {
	if i+1 < len(p.plans) {
		return p.plans[i+1].segment.Base()
	}
	return p.Bound
}

// resolver is the table strategy: the keys of the dirty section in memory, all at once.
type resolver struct {
	*pass
	hasher hasher
	table  table
}

// visit is told of each record with a key. The hash is all it gets to know of the key.
type visit func(at place, hash keyHash, tombstone bool) error

// index enters a record of the dirty section, and marks the one it supersedes. Records come in the order of their offsets, so what
// is in the table already is older. All of the pass's range is committed and stable: I10's other half.
func (r *resolver) index(at place, hash keyHash, tombstone bool) error {
	before, known, err := r.table.put(hash, at)
	if err != nil || !known {
		return err
	}
	if err := r.plans[before.segment].dead.add(before.ordinal, &r.memory); err != nil {
		return err
	}
	if tombstone {
		return r.plans[at.segment].older.add(at.ordinal, &r.memory)
	}
	return nil
}

// probe looks a record of the clean section up, when the table is complete. One that is not in it is the last of its key, and the
// only one: below the first dirty offset no key stands twice. One that is in it is dead, for what is in the table lies above. If
// that is a tombstone, it now hides an older record, and must outlive it.
func (r *resolver) probe(at place, hash keyHash, _ bool) error {
	latest, known := r.table.get(hash)
	if !known {
		return nil
	}
	if p := r.plans[latest.segment]; p.tombstone.has(latest.ordinal) {
		if err := p.older.add(latest.ordinal, &r.memory); err != nil {
			return err
		}
	}
	return r.plans[at.segment].dead.add(at.ordinal, &r.memory)
}

// segment reads one segment, batch by batch, and lets visit see its records. Ordinals run on from batch to batch; that is
// why the plan must have an entry for every batch, in their order, also for those without records.
func (r *resolver) segment(number int, visit visit) error {
	plan := r.plans[number]
	next := place{segment: uint32(number)}
	r.stats.SegmentsRead++
	err := plan.segment.Scan(0, func(_ int64, b record.Batch) error {
		if err := r.check(b); err != nil {
			return err
		}
		first := next.ordinal
		entry := batchPlan{sizeBytes: int32(len(b)), retained: r.retained(b)}
		entry.horizonMs, _ = b.DeleteHorizon()
		bytes, err := r.records(plan, b, &next, visit)
		if errors.Is(err, compress.ErrTooLarge) {
			// Nothing was visited: the limit strikes before the first record is seen.
			entry.opaque = true
			r.stats.OpaqueBatches++
		} else if err != nil {
			return err
		}
		entry.records = next.ordinal - first
		r.memory.touch(int64(len(b)) + bytes)
		return plan.add(entry, &r.memory)
	})
	if err != nil {
		return fmt.Errorf("read segment %d: %w", plan.segment.Base(), err)
	}
	return nil
}

// check is what a batch must pass before anything is believed of it: its checksum (I42), and that it belongs to no
// transaction. Its bytes are accounted first, for they were read whatever they turn out to be.
func (r *resolver) check(b record.Batch) error {
	if err := r.read(len(b)); err != nil {
		return err
	}
	if err := b.CheckCRC(); err != nil {
		return err
	}
	if b.Transactional() || b.Control() {
		return fmt.Errorf("%w: batch at offset %d", ErrTransactional, b.BaseOffset())
	}
	return nil
}

// retained tells whether a batch must stay though all its records go: the last of an active producer, for its sequence numbers
// (I25, by offset: I27), and the one that ends at the bound, so that the end of the log is known from the log (I29).
func (p *pass) retained(b record.Batch) bool {
	if b.NextOffset() == p.Bound {
		return true
	}
	last, active := p.Producers[b.ProducerID()]
	return active && b.ProducerID() >= 0 && last == b.LastOffset()
}

// records marks the records of a batch in the plan, and visits those with a key. It returns about how many bytes they take.
func (r *resolver) records(plan *plan, b record.Batch, next *place, visit visit) (bytes int64, err error) {
	err = b.Records(r.BatchBytesMax, func(rec *record.Record) error {
		at := *next
		if next.ordinal++; next.ordinal == 0 { // batches that compress a thousand times could hold as many
			return fmt.Errorf("%w: more than 2^32 records in a segment", ErrOverBudget)
		}
		bytes += int64(sizeOfRecord(rec))
		r.stats.RecordsRead++
		if rec.Key == nil { // from a time when the topic was not compacted: I13
			return plan.dead.add(at.ordinal, &r.memory)
		}
		if rec.Tombstone() {
			if err := plan.tombstone.add(at.ordinal, &r.memory); err != nil {
				return err
			}
		}
		return visit(at, r.hasher.hash(rec.Key), rec.Tombstone())
	})
	return bytes, err
}

// sizeOfRecord is about what a record takes in memory.
func sizeOfRecord(r *record.Record) int {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}
