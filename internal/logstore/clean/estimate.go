package clean

import (
	"context"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// sampleSlices is how many slices the hashes are cut into for an estimate, of which one is read.
const sampleSlices = 128

// Estimate is what a pass would find, by a sample.
type Estimate struct {
	GarbageBytes   int64 // below Job.Bound
	GarbageRecords int64
	SizeBytes      int64 // of all segments
	ReadBytes      int64 // of sidecars, for the estimate
	// Segments is the share of dead records of each source, 0 to 1; -1: its keys are not known.
	Segments []float64
}

// Measure estimates how much of a log is garbage, from the keys whose hash lies in the first of 128 slices: it reads little more
// than that part of each sidecar. It changes nothing. Of the Job it needs what tells which records there are: sources, bound, Aborted,
// LogStart, limits, and of Env Keys, Spend and Progress.
//
// Hashes are uniform, so a hundred and twenty-eighth of the keys is a fair sample: of a log of a million records with half of them dead,
// the share is right within one point, two standard deviations of it. Tombstones that are due are not counted.
func Measure(ctx context.Context, job Job) (Estimate, error) {
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
	none := window{len(p.plans), len(p.plans)} // no bitmaps: the sample is counted, not marked
	if err := p.findTransactions(none); err != nil {
		return e, err
	}
	s := newSlicer(p, window{0, 0}, p.tableBytes())
	s.dead = make([]int64, len(p.plans))
	if err := s.slice(keys.Slice(0, sampleSlices)); err != nil {
		return e, err
	}
	for i, plan := range p.plans {
		size := plan.segment.SizeBytes()
		e.SizeBytes += size
		if plan.keys == nil || plan.counts.Records == 0 {
			e.Segments = append(e.Segments, -1)
			continue
		}
		dead := float64(s.dead[i]) * sampleSlices
		for _, r := range plan.ignored {
			dead += float64(r.to - r.from)
		}
		dead += float64(plan.counts.NullKeys - plan.controls)
		share := min(1, dead/float64(plan.counts.Records))
		e.Segments = append(e.Segments, share)
		e.GarbageBytes += int64(share * float64(size))
		e.GarbageRecords += int64(min(dead, float64(plan.counts.Records)))
	}
	return e, nil
}
