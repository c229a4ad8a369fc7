package clean

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// choose decides which segments of a window are rewritten: those that must be, and then the best
// ones, until what is left has no more garbage than the topic allows. A segment without garbage is
// never chosen.
func (p *pass) choose(plans []*plan) {
	all := make([]candidate, len(plans))
	for i, plan := range plans {
		all[i] = candidate{
			sizeBytes: plan.segment.SizeBytes(), deadBytes: plan.deadBytes,
			liveBytes: plan.liveBytes, readBytes: plan.readBytes,
			removed: plan.removed, forced: plan.forced(),
			age: p.Now.Sub(time.UnixMilli(plan.newestMs())),
		}
	}
	for i, chosen := range choose(all, p.Rules.MaxGarbagePercent) {
		plans[i].chosen = chosen
	}
}

// markersShare is the share of a segment, one in so many, from which on its due markers force it.
// They take no notice of keys and come one by one as the last records of their transactions go:
// were each to force its segment, a log of many small transactions would be rewritten every day.
const markersShare = 100

// forced tells whether a segment must be rewritten, whatever the benefit.
func (p *plan) forced() bool {
	return p.overdue || p.due || p.deleted || p.onlyEmpty || p.dueMarkers > 0 &&
		p.dueMarkers*markersShare >= p.segment.SizeBytes()
}

// newestMs is the largest timestamp of the segment; the file's own if it has none, or one that lies
// in its future.
func (p *plan) newestMs() int64 {
	modified := p.segment.ModTime().UnixMilli()
	if ms, _ := p.segment.MaxTimestamp(); ms > 0 {
		return min(ms, modified)
	}
	return modified
}

// candidate is one segment, as choose sees it.
type candidate struct {
	sizeBytes, deadBytes, liveBytes, readBytes int64
	removed                                    int64 // records
	forced                                     bool
	age                                        time.Duration // of its newest record
}

// score is benefit over cost, weighed by age: what is old changes no more, so what is done to it
// lasts. Cost is what is written. What is read is left out (ADR 0125): a segment of which little
// lives has to be read whole as well, and would never look as cheap as it is; with it a fifth more
// is written, and no less is read. The age counts by its square root: by the full age, half the
// garbage of a young segment would never be worth a pass.
func (c candidate) score() float64 {
	if c.liveBytes <= 0 {
		return math.Inf(1)
	}
	return float64(c.deadBytes) / float64(c.liveBytes) * math.Sqrt(max(1, c.age.Seconds()))
}

// choose returns which of the candidates to rewrite, so that at most maxGarbagePercent of the bytes
// that stay are garbage.
func choose(all []candidate, maxGarbagePercent int) []bool {
	chosen := make([]bool, len(all))
	var size, garbage int64
	var order []int
	for i, c := range all {
		size += c.sizeBytes
		garbage += c.deadBytes
		switch {
		case c.removed == 0 && !c.forced:
		case c.forced || c.liveBytes+c.readBytes <= 0:
			chosen[i] = true
			size, garbage = size-c.deadBytes, garbage-c.deadBytes
		default:
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return cmp.Compare(all[b].score(), all[a].score()) })
	for _, i := range order {
		// At 0 everything goes, also a record so small that its share of a batch is no byte.
		if maxGarbagePercent > 0 &&
			float64(garbage)*100 <= float64(size)*float64(maxGarbagePercent) {
			break
		}
		chosen[i] = true
		size, garbage = size-all[i].deadBytes, garbage-all[i].deadBytes
	}
	return chosen
}
