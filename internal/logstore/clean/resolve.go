package clean

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// resolve finds out which records of a window are superseded, by slices of the hashes: of each
// slice the entries of all segments are read, the newest segment first, into a table that holds
// each key's latest record. Every sidecar is read once, in short sequential parts, whatever the
// number of keys; nothing is written, and no slice depends on another.
func (p *pass) resolve(w window) error {
	count := p.slices()
	workers := min(p.Limits.Workers, int(count))
	all := make([]*slicer, workers)
	failed := make([]error, workers)
	bytes := p.tableBytes() / int64(workers)
	for i := range all {
		all[i] = newSlicer(p, w, bytes)
		p.memory.take(all[i].table.bytes())
	}
	p.Limits.Parallel(workers, func(i int) {
		for number := i; number < int(count) && failed[i] == nil; number += workers {
			failed[i] = all[i].slice(keys.Slice(uint32(number), count))
		}
	})
	for i, s := range all {
		p.memory.give(s.table.bytes())
		p.collect(s)
		if failed[i] != nil {
			return failed[i]
		}
	}
	return nil
}

// How large a table is made, where memory does not bound it. One that fits a processor's own cache
// resolves an entry in a third of the time of one that does not (docs/bench/cleaner.md), so it is
// no larger than this, as long as each read of a sidecar gives so many entries: smaller reads would
// cost more than the cache saves.
const (
	tableBytesCached = 1 << 20
	readEntriesMin   = 256
)

// tableBytes is the memory for tables: what is best, or what is left of the budget, and at least a
// little.
func (p *pass) tableBytes() int64 {
	workers := int64(p.Limits.Workers)
	least := workers * tableSlotsMin * slotBytes
	best := max(tableBytesCached,
		int64(len(p.plans))*readEntriesMin*slotBytes*loadDenominator/loadNumerator)
	best = min(best, 2*slotBytes*p.entries()+tableSlotsMin*slotBytes)
	return max(least, min(workers*best, p.memory.limit-p.memory.used))
}

// entries is how many the sidecars have.
func (p *pass) entries() (n int64) {
	for _, plan := range p.plans {
		n += int64(plan.counts.Entries())
	}
	return n
}

// slices is how many slices make each fit a table with a margin: they are random samples of the
// keys, whose sizes differ by a few standard deviations. One that does not fit all the same is
// split (see slicer.slice), so this is about speed, not about memory.
func (p *pass) slices() uint32 {
	room := float64(
		p.tableBytes()/int64(p.Limits.Workers)/slotBytes,
	) * loadNumerator / loadDenominator
	room = max(1, room-6*math.Sqrt(room))
	slices := uint64(math.Ceil(float64(p.entries()) / room))
	if slices <= 1 {
		return 1
	}
	// A power of two: then slices end where the buckets of the sidecars do, and nothing is read
	// twice.
	return uint32(1) << min(31, bits.Len64(slices-1))
}

// collect takes over what a slicer found of the plans.
func (p *pass) collect(s *slicer) {
	for i, plan := range p.plans {
		plan.holds = first(plan.holds, s.holds[i])
		plan.supersededMs = min(plan.supersededMs, s.supersededMs[i])
	}
}

// slicer works on slices of the hashes, one after the other. Several may work at once: they share
// the plans' bitmaps, whose bits they set atomically, and nothing else that changes.
type slicer struct {
	*pass
	window
	table *table
	// final tells that the window has tombstones: then what lies below it is read too, to see which
	// of them hide something.
	final        bool
	begunMs      []int64 // of each segment
	holds        []place // plan.holds, as far as these slices know
	supersededMs []int64 // plan.supersededMs, likewise
	dead         []int64 // superseded records of each segment; nil if nobody asks
	live         int64   // keys that have a latest record

	entriesOf keys.Entries // reused
	run       run
	audit     audit
}

// audit counts what a slice has met: each entry is ignored, superseded, or the latest of its key
// (F6).
type audit struct{ entries, ignored, dead, groups int }

func newSlicer(p *pass, w window, bytes int64) *slicer {
	s := &slicer{
		pass: p, window: w, table: newTable(bytes),
		begunMs: make([]int64, len(p.plans)), holds: make([]place, len(p.plans)),
		supersededMs: make([]int64, len(p.plans)),
	}
	for i, plan := range p.plans {
		s.begunMs[i], s.supersededMs[i], s.holds[i] = plan.begun().UnixMilli(), math.MaxInt64,
			nowhere
		s.final = s.final || w.from <= i && i < w.to && plan.final != nil
	}
	return s
}

// slice resolves the keys of one range of hashes. One whose keys do not fit the table is cut in
// two, and those are resolved instead: what was found until then is true, and is found again.
func (s *slicer) slice(of keys.Range) error {
	s.table.reset(of)
	s.audit = audit{}
	dead := slices.Clone(s.dead)
	for i := len(s.plans) - 1; i >= 0 && (i >= s.from || s.final); i-- {
		if s.plans[i].keys == nil {
			continue
		}
		fits, err := s.segment(i, of)
		if err != nil {
			return fmt.Errorf("read keys of segment %d: %w", s.plans[i].segment.Base(),
				s.plans[i].sidecarFault(err))
		}
		if !fits {
			copy(s.dead, dead) // they are counted again
			middle := of.First + (of.Last-of.First)/2
			if middle == of.Last {
				return fmt.Errorf("%w: more keys of one hash than a table has slots", ErrSidecar)
			}
			if err := s.slice(keys.Range{First: of.First, Last: middle}); err != nil {
				return err
			}
			return s.slice(keys.Range{First: middle + 1, Last: of.Last})
		}
	}
	if a := s.audit; a.entries != a.ignored+a.dead+a.groups || a.groups != s.table.used {
		return fmt.Errorf(
			"audit of the hashes from %x to %x: %d entries, but %d ignored, %d dead and %d latest ones, %d in the table",
			of.First,
			of.Last,
			a.entries,
			a.ignored,
			a.dead,
			a.groups,
			s.table.used,
		)
	}
	s.live += int64(s.audit.groups)
	return nil
}

// segment reads a segment's entries of a range. fits is false if the table was full.
func (s *slicer) segment(number int, of keys.Range) (fits bool, err error) {
	s.entriesOf.Reset(s.plans[number].keys, of)
	s.run = run{number: number, ignoring: len(s.plans[number].ignored) > 0}
	for {
		page, err := s.entriesOf.NextPage()
		if errors.Is(err, io.EOF) {
			return s.endRun(), nil
		}
		if err != nil {
			return false, err
		}
		for i := range page.Len() {
			e := page.At(i)
			if e.Hash != s.run.hash || !s.run.any {
				if !s.endRun() {
					return false, nil
				}
				s.run.hash = e.Hash
			}
			s.add(e)
		}
		s.audit.entries += page.Len()
	}
}

// run is the entries of one key in one segment, in the order of the log, as far as they were read.
// However often a key stands in a segment, it comes to the table once (F3).
type run struct {
	number   int // of the segment
	ignoring bool
	hash     keys.Hash
	any      bool // an entry was read
	several  bool // more than one was
	latest   bool // ordinal and tombstone are set: the latest one that is not ignored
	older    bool // of latest: another one stands before it
	ordinal  uint32
	tomb     bool
}

// add takes the next entry of the run.
func (s *slicer) add(e keys.Entry) {
	r := &s.run
	before := r.any
	r.several, r.any = before, true
	if r.ignoring && s.plans[r.number].ignores(e.Ordinal) {
		s.audit.ignored++
		return
	}
	if r.latest {
		s.supersede(r.number, r.ordinal, r.number)
	}
	r.latest, r.older, r.ordinal, r.tomb = true, before, e.Ordinal, e.Tombstone
}

// endRun brings the run to the table. It returns false if the table has no room for the key.
func (s *slicer) endRun() bool {
	r := &s.run
	if !r.any {
		return true
	}
	slot := s.table.find(r.hash)
	switch {
	case slot.known():
		s.below(slot)
	case !r.latest: // all are ignored, and nothing newer is there for them to come back under
	case s.table.full():
		return false
	default:
		s.table.put(slot, r.hash, place{uint32(r.number), r.ordinal}, r.tomb)
		s.audit.groups++
		if r.tomb {
			s.tombstone()
		}
	}
	*r = run{number: r.number, ignoring: r.ignoring}
	return true
}

// below is endRun for a key that stands in a newer segment too: all of the run is dead, and if the
// latest is a tombstone, it must stay for that.
func (s *slicer) below(slot *slot) {
	r := &s.run
	if r.latest {
		s.supersede(r.number, r.ordinal, int(slot.next))
		slot.next = uint32(r.number)
	}
	if !slot.tombstone() {
		return
	}
	latest := slot.latest()
	s.holds[r.number] = first(s.holds[r.number], latest)
	if older := s.plans[latest.segment].older; older != nil && s.inWindow(int(latest.segment)) {
		older.setShared(latest.ordinal)
	}
}

// tombstone is endRun for the latest record of its key, which is a tombstone.
func (s *slicer) tombstone() {
	r := &s.run
	if r.older {
		s.holds[r.number] = first(s.holds[r.number], place{uint32(r.number), r.ordinal})
	}
	if !s.inWindow(r.number) {
		return
	}
	plan := s.plans[r.number]
	plan.final.setShared(r.ordinal)
	if r.older {
		plan.older.setShared(r.ordinal)
	}
}

// supersede marks a record that one in the segment by supersedes.
func (s *slicer) supersede(number int, ordinal uint32, by int) {
	s.audit.dead++
	if s.dead != nil {
		s.dead[number]++
	}
	s.supersededMs[number] = min(s.supersededMs[number], s.begunMs[by])
	if s.inWindow(number) {
		s.plans[number].dead.setShared(ordinal)
	}
}

// inWindow tells whether a plan has bitmaps now.
func (s *slicer) inWindow(number int) bool { return s.from <= number && number < s.to }

// sidecarFault makes of an error of a sidecar's reader one that says what to do: a sidecar that is
// damaged or not this segment's is made anew. Everything else, as the end of a context, stays what
// it is.
func (p *plan) sidecarFault(err error) error {
	if errors.Is(err, keys.ErrCorrupt) || errors.Is(err, keys.ErrStale) ||
		errors.Is(err, keys.ErrMismatch) {
		return &sidecarError{segment: p.segment, reason: err.Error()}
	}
	return err
}
