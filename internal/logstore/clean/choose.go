package clean

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// chooseSegments decides which segments of a window are rewritten: first the segments that must be
// rewritten, then the segments with the best scores, until the remaining garbage is within the
// topic's limit. A segment without garbage is never chosen.
func chooseSegments(plans []*plan, maxGarbagePercent int, now time.Time) {
	all := make([]candidate, len(plans))
	for i, plan := range plans {
		all[i] = candidate{
			sizeBytes: plan.segment.SizeBytes(), deadBytes: plan.deadBytes,
			liveBytes: plan.liveBytes, readBytes: plan.readBytes,
			removed: plan.removed, forced: plan.forced(),
			age: now.Sub(time.UnixMilli(plan.newestMs())),
		}
	}
	for i, chosen := range choose(all, maxGarbagePercent) {
		plans[i].chosen = chosen
	}
}

// dueShare limits rewrites that remove only markers and batches without records. Such markers and
// batches force a rewrite of their segment only if they take at least 1/dueShare of its bytes. They
// become removable one by one, each after the last records of its transaction are removed or its
// producer has expired. If each of them forced a rewrite, a log of many small transactions would be
// rewritten every day.
const dueShare = 100

// hasMuchDue reports whether due markers and unneeded empty batches force a rewrite of the segment.
func (p *plan) hasMuchDue() bool {
	return p.dueBytes > 0 && p.dueBytes*dueShare >= p.segment.SizeBytes()
}

// forced reports whether the segment must be rewritten, even if the rewrite frees little space.
func (p *plan) forced() bool {
	return p.overdue || p.hasDueTombstone || p.hasDeleted || p.allDropped || p.hasMuchDue()
}

// candidate is the input of choose for one segment.
type candidate struct {
	sizeBytes, deadBytes, liveBytes, readBytes int64
	removed                                    int64 // number of records that a rewrite removes
	forced                                     bool
	// age is the age of the segment's newest record.
	age time.Duration
}

// score is the benefit of rewriting a segment, divided by the cost and weighted by age: records of
// an old segment are less likely to be superseded soon, so a rewrite of the segment has a longer
// effect.
//
// The cost is the number of bytes written. Bytes read are not included (ADR 0125): nearly the whole
// segment is read, even if few of its records are live, so these bytes would hide how cheap the
// rewrite of a nearly empty segment is. With them, passes wrote a fifth more and did not read less.
// The score contains the square root of the age, because with the age itself passes wrote twice as
// much.
func (c candidate) score() float64 {
	if c.liveBytes <= 0 {
		return math.Inf(1)
	}
	return float64(c.deadBytes) / float64(c.liveBytes) * math.Sqrt(max(1, c.age.Seconds()))
}

// choose returns which candidates to rewrite. After these rewrites, at most maxGarbagePercent of
// the remaining bytes are garbage.
func choose(all []candidate, maxGarbagePercent int) []bool {
	chosen := make([]bool, len(all))
	var size, garbage int64
	var optional []int
	for i, c := range all {
		size += c.sizeBytes
		garbage += c.deadBytes
		switch {
		case c.removed == 0 && !c.forced:
		case c.forced || c.liveBytes+c.readBytes <= 0:
			chosen[i] = true
			size, garbage = size-c.deadBytes, garbage-c.deadBytes
		default:
			optional = append(optional, i)
		}
	}
	slices.SortStableFunc(optional,
		func(a, b int) int { return cmp.Compare(all[b].score(), all[a].score()) })
	for _, i := range optional {
		// At 0 percent every segment with a dead record is chosen. A comparison of bytes would miss
		// a record that is so small that its share of a batch rounds to 0 bytes.
		if maxGarbagePercent > 0 &&
			float64(garbage)*100 <= float64(size)*float64(maxGarbagePercent) {
			break
		}
		chosen[i] = true
		size, garbage = size-all[i].deadBytes, garbage-all[i].deadBytes
	}
	return chosen
}
