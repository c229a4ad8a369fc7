package clean

import (
	"context"
	"math"
	"math/bits"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// The sample is one hash slice. The log's keys are divided into the smallest number of slices, a
// power of two, for which a slice has at most sampleEntries entries on average, but into at most
// sampleSlicesMax slices. If a single slice suffices, the estimate reads all entries and is exact.
const (
	sampleSlicesMax = 128
	sampleEntries   = 1 << 15
)

// Estimate is the garbage that a pass would find, estimated from a sample.
type Estimate struct {
	GarbageBytes   int64 // garbage below Job.Bound
	GarbageRecords int64
	SizeBytes      int64 // size of all segments
	ReadBytes      int64 // bytes read from sidecars for the estimate
	// Error is the uncertainty of GarbageRecords: three standard deviations, as a share of all
	// records, 0 to 1. With 0 the estimate is exact.
	Error float64
	// Segments contains each source's share of dead records, 0 to 1. It is -1 for a source that has
	// no sidecar or no records.
	Segments []float64
}

// EstimateGarbage estimates a log's garbage from one of several hash slices. From each sidecar it
// reads little more than the part for this slice, and it does not change the log. It uses these
// fields of Job: Sources, Bound, AbortedAcrossBound, LogStart, Limits, and OpenSidecar, Throttle
// and Report of Env.
//
// It counts the keys in the sample and not the dead records: one record of each key is live, and
// all other records are garbage. The number of dead records in a sample varies much more than the
// number of keys. A key with half of all records is either in the sample or not, but it counts as
// only one key (ADR 0111). Tombstones whose retention has ended are not included in the garbage.
func EstimateGarbage(ctx context.Context, job Job) (Estimate, error) {
	p := newPass(ctx, job.withDefaults())
	e, err := p.estimate()
	if closeErr := p.close(); err == nil {
		err = closeErr
	}
	e.ReadBytes = p.io.sidecarBytes.Load()
	return e, err
}

// estimate reads the sample.
func (p *pass) estimate() (e Estimate, err error) {
	if err := p.index(); err != nil {
		return e, err
	}
	if err := p.findIgnored(); err != nil {
		return e, err
	}
	entries := entryCount(p.plans)
	count := sampleSlices(entries)
	budget := tableBudget(len(p.plans), entries, p.job.Limits.Workers, p.memory.available())
	r := newSliceResolver(p.plans, window{}, budget)
	r.superseded = make([]int64, len(p.plans))
	if err := r.resolve(keys.Slice(0, count)); err != nil {
		return e, err
	}
	extrapolate(&e, p.plans, r, count)
	return e, nil
}

// sampleSlices returns the number of slices, one of which is the sample. The number is a power of
// two, because slices then end at bucket boundaries of the sidecars.
func sampleSlices(entries int64) uint32 {
	count := uint64(max(1, (entries+sampleEntries-1)/sampleEntries))
	return min(sampleSlicesMax, uint32(1)<<min(31, bits.Len64(count-1)))
}

// findIgnored sets the ignored records of all plans. It skips the search for transactions if the
// log contains no aborted transaction and no record without a key, and therefore no control record.
func (p *pass) findIgnored() error {
	plain := len(p.job.AbortedAcrossBound) == 0
	for i, plan := range p.plans {
		plain = plain && p.job.Sources[i].NoAbortedTxns && plan.counts.NullKeys == 0
	}
	if plain {
		return findIgnored(p.plans, nil, p.deletion())
	}
	// The window is empty, because an estimate counts records and needs no bitmaps.
	return p.findTransactions(window{})
}

// extrapolate computes the estimate from the sample, one of count slices.
func extrapolate(e *Estimate, plans []*plan, sample *sliceResolver, count uint32) {
	// records is the number of data records in segments with sidecars. sampled is the number of
	// dead records among them, extrapolated from the superseded records in the sample.
	var records, sampled float64
	shares := make([]float64, len(plans))
	for i, plan := range plans {
		e.SizeBytes += plan.segment.SizeBytes()
		if plan.keys == nil || plan.counts.Records == 0 {
			shares[i] = -1
			continue
		}
		shares[i] = float64(sample.superseded[i]) * float64(count)
		for _, r := range plan.ignored {
			shares[i] += float64(r.to - r.from)
		}
		shares[i] += float64(plan.counts.NullKeys - plan.controlRecords)
		records += float64(plan.counts.Records - plan.controlRecords)
		sampled += shares[i]
	}
	live := float64(sample.liveKeys) * float64(count)
	dead := min(records, max(0, records-live))
	deviation := math.Sqrt(float64(count-1) * live)
	if sampled == 0 && dead <= 3*deviation {
		dead = 0 // no key in the sample has two records; a difference is within the error
	}
	for i, plan := range plans {
		if shares[i] < 0 {
			continue
		}
		if sampled > 0 {
			shares[i] *= dead / sampled
		} else {
			shares[i] = dead * float64(plan.counts.Records-plan.controlRecords) / max(1, records)
		}
		shares[i] = min(1, shares[i]/float64(plan.counts.Records))
		e.GarbageBytes += int64(shares[i] * float64(plan.segment.SizeBytes()))
	}
	e.GarbageRecords = int64(dead)
	e.Segments = shares
	e.Error = 3 * deviation / max(1, records)
}
