package clean

import "math"

// smallShare makes a segment small: what lives in it takes at most this share of a segment. Merging larger ones would rewrite
// the same bytes again and again for little (cleaner.md 4).
const smallShare = 16

// group puts neighbours together that become new segments together: those that are worth rewriting, and small ones beside
// them. A group holds at most what lives in one segment, and offsets that fit one (I30); single segments may be larger. Small
// segments alone are merged too, when there are two at least.
func (p *pass) group() [][]*plan {
	var groups [][]*plan
	for i := 0; i < len(p.plans); {
		j, live, pays := i, int64(0), false
		for j < len(p.plans) && p.joins(i, j, live) {
			live += p.plans[j].liveBytes
			pays = pays || p.plans[j].pays
			j++
		}
		if pays || j-i > 1 {
			groups = append(groups, p.plans[i:j])
		}
		// j == i: the segment may not even begin a group, and is left as it is.
		i = max(j, i+1)
	}
	return groups
}

// joins tells whether segment j may join a group that begins at i and holds live bytes so far. A segment that does not pay and is
// not small ends a group, because copying it would free nothing; so groups lie between such segments. The first of a group that
// pays is taken whatever its size: output rolls (I31).
func (p *pass) joins(i, j int, live int64) bool {
	plan := p.plans[j]
	if !plan.pays && plan.liveBytes > p.SegmentBytes/smallShare {
		return false
	}
	// The last offset is estimated by where the segment ends: records may have been at its end that went long ago.
	return j == i || live+plan.liveBytes <= p.SegmentBytes && p.end(j)-1-p.plans[i].segment.Base() <= math.MaxInt32 && p.spans(i, j)
}

// spans tells whether the timestamps of the segments i to j are near enough for one group. The first batch stands for the oldest
// record: what was merged before is measured again each time, so groups do not creep up on the newest segment. Segments without
// a batch have no timestamp, and do not matter.
func (p *pass) spans(i, j int) bool {
	newest, _ := p.plans[j].segment.MaxTimestamp()
	if p.SpanMax <= 0 || p.plans[j].segment.SizeBytes() == 0 {
		return true
	}
	for _, plan := range p.plans[i:j] {
		if oldest, ok := plan.segment.FirstTimestamp(); ok {
			return newest-oldest <= p.SpanMax.Milliseconds()
		}
	}
	return true
}
