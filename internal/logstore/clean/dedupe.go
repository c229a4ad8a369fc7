package clean

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// deduplicate marks the superseded records of a window. It reads every sidecar once, in short
// sequential reads, however many keys there are. It writes no file. The hash slices are independent
// of each other.
func (p *pass) deduplicate(w window) error {
	entries := entryCount(p.plans)
	limits := &p.job.Limits
	budget := tableBudget(len(p.plans), entries, limits.Workers, p.memory.available())
	count := hashSlices(entries, budget/int64(limits.Workers))
	workers := min(limits.Workers, int(count))
	resolvers := make([]*sliceResolver, workers)
	failed := make([]error, workers)
	for i := range resolvers {
		resolvers[i] = newSliceResolver(p.plans, w, budget/int64(workers))
		p.memory.acquire(resolvers[i].table.bytes())
	}
	limits.Parallel(workers, func(i int) {
		for number := i; number < int(count) && failed[i] == nil; number += workers {
			failed[i] = resolvers[i].resolve(keys.Slice(uint32(number), count))
		}
	})
	for i, r := range resolvers {
		p.memory.release(r.table.bytes())
		r.mergeInto(p.plans)
		if failed[i] != nil {
			return failed[i]
		}
	}
	return nil
}

// entryCount returns the number of entries of all sidecars.
func entryCount(plans []*plan) (n int64) {
	for _, plan := range plans {
		n += int64(plan.counts.Entries())
	}
	return n
}

// sliceResolver resolves hash slices, one after the other: it finds the latest record of each key
// and marks the older records of the key as dead. For each slice it reads the entries of all
// segments, the newest segment first, into a table.
//
// Several resolvers may work at once. They write only to the bitmaps of the window's plans, whose
// bits they set atomically.
type sliceResolver struct {
	plans  []*plan // all segments of the pass
	window window
	table  *table
	// hasTombstones is set if the window contains tombstones or markers. In this case, the segments
	// below the window are read too, because their records may block these tombstones.
	hasTombstones bool
	firstAppendMs []int64 // see plan.firstAppend; by segment

	// Results per segment, over all slices that this resolver has resolved.
	blocks       []recordPosition // see plan.blocks
	supersededMs []int64          // see plan.supersededMs
	// superseded counts superseded records; nil if the caller does not need the number.
	superseded []int64
	liveKeys   int64 // number of keys that have a latest record

	entries keys.Entries // reused memory
	run     keyRun
	audit   audit
}

// audit counts the entries of a slice by outcome. Each entry is either ignored, superseded, or the
// latest of its key, so the three counts must add up to the number of entries (F6).
type audit struct{ entries, ignored, superseded, latest int }

func newSliceResolver(plans []*plan, w window, tableBytes int64) *sliceResolver {
	r := &sliceResolver{
		plans: plans, window: w, table: newTable(tableBytes),
		firstAppendMs: make([]int64, len(plans)), blocks: make([]recordPosition, len(plans)),
		supersededMs: make([]int64, len(plans)),
	}
	for i, plan := range plans {
		r.firstAppendMs[i] = plan.firstAppend().UnixMilli()
		r.supersededMs[i], r.blocks[i] = math.MaxInt64, noRecord
		r.hasTombstones = r.hasTombstones || w.contains(i) && plan.latest != nil
	}
	return r
}

// mergeInto merges the resolver's results into the plans.
func (r *sliceResolver) mergeInto(plans []*plan) {
	for i, plan := range plans {
		plan.blocks = lower(plan.blocks, r.blocks[i])
		plan.supersededMs = min(plan.supersededMs, r.supersededMs[i])
	}
}

// resolve resolves the keys of one range of hashes. If the table cannot hold the keys, it splits
// the range and resolves both halves. The results of the failed attempt remain: they are correct,
// and the halves produce them again.
func (r *sliceResolver) resolve(keyRange keys.Range) error {
	r.table.reset(keyRange)
	r.audit = audit{}
	superseded := slices.Clone(r.superseded)
	for i := len(r.plans) - 1; i >= 0 && (i >= r.window.from || r.hasTombstones); i-- {
		if r.plans[i].keys == nil {
			continue
		}
		fits, err := r.readSegment(i, keyRange)
		if err != nil {
			return fmt.Errorf("read keys of segment %d: %w", r.plans[i].segment.Base(),
				r.plans[i].sidecarFault(err))
		}
		if !fits {
			copy(r.superseded, superseded) // the halves count the superseded records again
			middle := keyRange.First + (keyRange.Last-keyRange.First)/2
			if middle == keyRange.Last {
				return fmt.Errorf("%w: more keys of one hash than a table has slots", ErrSidecar)
			}
			if err := r.resolve(keys.Range{First: keyRange.First, Last: middle}); err != nil {
				return err
			}
			return r.resolve(keys.Range{First: middle + 1, Last: keyRange.Last})
		}
	}
	if a := r.audit; a.entries != a.ignored+a.superseded+a.latest || a.latest != r.table.used {
		return fmt.Errorf("audit of the hashes from %x to %x: %d entries, but %d ignored, "+
			"%d superseded and %d latest ones, %d in the table", keyRange.First, keyRange.Last, a.entries,
			a.ignored, a.superseded, a.latest, r.table.used)
	}
	r.liveKeys += int64(r.audit.latest)
	return nil
}

// readSegment adds a segment's entries in a range of hashes to the table. fits is false if the
// table was full.
func (r *sliceResolver) readSegment(index int, hashes keys.Range) (fits bool, err error) {
	r.entries.Reset(r.plans[index].keys, hashes)
	r.run = keyRun{segment: index, hasIgnored: len(r.plans[index].ignored) > 0}
	for {
		page, err := r.entries.NextPage()
		if errors.Is(err, io.EOF) {
			return r.endRun(), nil
		}
		if err != nil {
			return false, err
		}
		for i := range page.Len() {
			e := page.At(i)
			if e.Hash != r.run.hash || !r.run.any {
				if !r.endRun() {
					return false, nil
				}
				r.run.hash = e.Hash
			}
			r.add(e)
		}
		r.audit.entries += page.Len()
	}
}

// keyRun summarizes the entries of one key in one segment, which the sidecar lists consecutively in
// log order. So the key is looked up in the table only once, however many of its records the
// segment contains (F3).
type keyRun struct {
	segment    int // index in plans
	hasIgnored bool
	hash       keys.Hash
	any        bool // true if at least one entry of the run was read
	hasLatest  bool // an entry is not ignored; ordinal and tombstone describe the last such entry
	hasOlder   bool // true if an entry, ignored or not, precedes the latest one
	ordinal    uint32
	tombstone  bool
}

// add adds the next entry to the run.
func (r *sliceResolver) add(e keys.Entry) {
	run := &r.run
	hasOlder := run.any
	run.any = true
	if run.hasIgnored && r.plans[run.segment].ignores(e.Ordinal) {
		r.audit.ignored++
		return
	}
	if run.hasLatest {
		r.supersede(run.segment, run.ordinal, run.segment)
	}
	run.hasLatest, run.hasOlder, run.ordinal, run.tombstone = true, hasOlder, e.Ordinal, e.Tombstone
}

// endRun adds the run to the table. It returns false if the table has no space for the key.
func (r *sliceResolver) endRun() bool {
	run := &r.run
	if !run.any {
		return true
	}
	slot := r.table.find(run.hash)
	switch {
	case slot.occupied():
		r.supersedeRun(slot)
	case !run.hasLatest: // all entries of the run are ignored, and the key has no newer record
	case r.table.full():
		return false
	default:
		position := recordPosition{uint32(run.segment), run.ordinal}
		r.table.put(slot, run.hash, position, run.tombstone)
		r.audit.latest++
		if run.tombstone {
			r.addLatestTombstone(position)
		}
	}
	*run = keyRun{segment: run.segment, hasIgnored: run.hasIgnored}
	return true
}

// supersedeRun handles a run whose key has a record in a newer segment. All records of the run are
// dead. If the key's latest record is a tombstone, the run blocks this tombstone.
func (r *sliceResolver) supersedeRun(slot *slot) {
	run := &r.run
	if run.hasLatest {
		r.supersede(run.segment, run.ordinal, int(slot.supersededBy))
		slot.supersededBy = uint32(run.segment)
	}
	if !slot.tombstone() {
		return
	}
	latest := slot.latest()
	r.blocks[run.segment] = lower(r.blocks[run.segment], latest)
	blocked := r.plans[latest.segment].blocked
	if blocked != nil && r.window.contains(int(latest.segment)) {
		blocked.setShared(latest.ordinal)
	}
}

// addLatestTombstone handles a run whose latest record is a tombstone and also the key's latest
// record in the log.
func (r *sliceResolver) addLatestTombstone(position recordPosition) {
	run := &r.run
	if run.hasOlder {
		r.blocks[run.segment] = lower(r.blocks[run.segment], position)
	}
	if !r.window.contains(run.segment) {
		return
	}
	plan := r.plans[run.segment]
	plan.latest.setShared(position.ordinal)
	if run.hasOlder {
		plan.blocked.setShared(position.ordinal)
	}
}

// supersede marks a record as superseded. by is the index of the segment that contains the
// superseding record.
func (r *sliceResolver) supersede(index int, ordinal uint32, by int) {
	r.audit.superseded++
	if r.superseded != nil {
		r.superseded[index]++
	}
	r.supersededMs[index] = min(r.supersededMs[index], r.firstAppendMs[by])
	if r.window.contains(index) {
		r.plans[index].dead.setShared(ordinal)
	}
}
