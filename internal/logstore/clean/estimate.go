package clean

import (
	"context"
	"math"
	"math/bits"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// How large a sample is: the hashes are cut into as many slices as leave at most sampleEntries in
// each, and of those one is read; of large logs a hundred and twenty-eighth. A log with fewer
// entries is read whole, and what comes out is exact.
const (
	sampleSlicesMax = 128
	sampleEntries   = 1 << 15
)

// Estimate is what a pass would find, by a sample.
type Estimate struct {
	GarbageBytes   int64 // below Job.Bound
	GarbageRecords int64
	SizeBytes      int64 // of all segments
	ReadBytes      int64 // of sidecars, for the estimate
	// Error is how far GarbageRecords may be off, as a share of all records, 0 to 1: three standard
	// deviations. 0: it is exact.
	Error float64
	// Segments is the share of dead records of each source, 0 to 1; -1: its keys are not known.
	Segments []float64
}

// EstimateGarbage estimates how much of a log is garbage, from the keys whose hash lies in the
// first slice of several: it reads little more than that part of each sidecar. It changes nothing.
// Of the Job it needs what tells which records there are: sources, bound, Aborted, LogStart,
// limits, and of Env Keys, Spend and Progress.
//
// What is counted is keys, not dead records: garbage is what is left of all records when each key
// that has one keeps one. Hashes spread keys evenly, however unevenly records are spread over the
// keys: a key that has half of all records counts as one, in the sample or not (ADR 0111).
// Tombstones that are due are not counted as garbage.
func EstimateGarbage(ctx context.Context, job Job) (Estimate, error) {
	p := newPass(ctx, job.withDefaults())
	e, err := p.estimate()
	if closing := p.close(); err == nil {
		err = closing
	}
	e.ReadBytes = p.meter.sidecar.Load()
	return e, err
}

// estimate reads the sample.
func (p *pass) estimate() (e Estimate, err error) {
	if err := p.index(); err != nil {
		return e, err
	}
	if err := p.findIgnoredOnly(); err != nil {
		return e, err
	}
	count := sampleSlices(p.entries())
	s := newSlicer(p, window{0, 0}, p.tableBytes())
	s.dead = make([]int64, len(p.plans))
	if err := s.slice(keys.Slice(0, count)); err != nil {
		return e, err
	}
	p.extrapolate(&e, s, count)
	return e, nil
}

// sampleSlices is into how many slices so many entries are cut for a sample: a power of two, as
// slices end where the buckets of the sidecars do.
func sampleSlices(entries int64) uint32 {
	count := uint64(max(1, (entries+sampleEntries-1)/sampleEntries))
	return min(sampleSlicesMax, uint32(1)<<min(31, bits.Len64(count-1)))
}

// findIgnoredOnly is findTransactions, without its reading of all batches where there is nothing to
// be found: nothing was aborted, and there are no control records among those without a key.
func (p *pass) findIgnoredOnly() error {
	plain := len(p.AbortedAcrossBound) == 0
	for i, plan := range p.plans {
		plain = plain && p.Sources[i].NoAbortedTxns && plan.counts.NullKeys == 0
	}
	if plain {
		return p.findIgnored()
	}
	// no bitmaps: the sample is counted, not marked
	return p.findTransactions(window{len(p.plans), len(p.plans)})
}

// extrapolate makes of a sample, one slice of count, an estimate of the whole.
func (p *pass) extrapolate(e *Estimate, s *slicer, count uint32) {
	// what is known of the records, and how many of them the sample sees die
	var records, seen float64
	shares := make([]float64, len(p.plans))
	for i, plan := range p.plans {
		e.SizeBytes += plan.segment.SizeBytes()
		if plan.keys == nil || plan.counts.Records == 0 {
			shares[i] = -1
			continue
		}
		shares[i] = float64(s.dead[i]) * float64(count)
		for _, r := range plan.ignored {
			shares[i] += float64(r.to - r.from)
		}
		shares[i] += float64(plan.counts.NullKeys - plan.controls)
		records += float64(plan.counts.Records - plan.controls)
		seen += shares[i]
	}
	live := float64(s.live) * float64(count)
	dead := min(records, max(0, records-live))
	deviation := math.Sqrt(float64(count-1) * live)
	if seen == 0 && dead <= 3*deviation {
		dead = 0 // no key of the sample stands twice
	}
	for i, plan := range p.plans {
		if shares[i] < 0 {
			continue
		}
		if seen > 0 {
			shares[i] *= dead / seen
		} else {
			shares[i] = dead * float64(plan.counts.Records-plan.controls) / max(1, records)
		}
		shares[i] = min(1, shares[i]/float64(plan.counts.Records))
		e.GarbageBytes += int64(shares[i] * float64(plan.segment.SizeBytes()))
	}
	e.GarbageRecords = int64(dead)
	e.Segments = shares
	e.Error = 3 * deviation / max(1, records)
}
