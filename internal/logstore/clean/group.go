package clean

import "math"

// smallShare makes a segment small: what lives in it takes at most this share of a segment. Merging
// larger ones would rewrite the same bytes again and again for little (cleaner.md 4).
const smallShare = 16

// group puts neighbours together that become new segments together: those that were chosen, and
// small ones beside them. A group holds at most what lives in one segment, and offsets that fit one
// (I30); single segments may be larger. Small segments alone are merged too, if that is worth it
// (see merges).
func (p *pass) group(plans []*plan) [][]*plan {
	var groups [][]*plan
	for i := 0; i < len(plans); {
		j, live, chosen := i, int64(0), false
		for j < len(plans) && p.joins(plans[i:j+1], live) {
			live += plans[j].liveBytes
			chosen = chosen || plans[j].chosen
			j++
		}
		if chosen || merges(plans[i:j], live) {
			groups = append(groups, plans[i:j])
		}
		// j == i: the segment may not even begin a group, and is left as it is.
		i = max(j, i+1)
	}
	return groups
}

// merges tells whether small segments, none of which was chosen, are worth merging: when the
// largest is no more than half of them. So a byte is rewritten each time the segment it is in has
// doubled, which is seldom, and not each time a small one has come.
func merges(group []*plan, live int64) bool {
	largest := int64(0)
	for _, plan := range group {
		largest = max(largest, plan.liveBytes)
	}
	return len(group) > 1 && 2*largest <= live
}

// joins tells whether the last of plans may join a group of those before it, which hold live bytes.
// A segment that was not chosen and is not small ends a group, because copying it would free
// nothing; so groups lie between such segments. The first of a group that was chosen is taken
// whatever its size: output rolls (I31). A segment whose keys are not known is left alone.
func (p *pass) joins(plans []*plan, live int64) bool {
	last := plans[len(plans)-1]
	if last.keys == nil || !last.chosen && last.liveBytes > p.Rules.SegmentBytes/smallShare {
		return false
	}
	if len(plans) == 1 {
		return true
	}
	// The last offset is what is in the segment, not where the next one begins: outputs roll where
	// it does not fit all the same.
	first := plans[0].segment.Base()
	return live+last.liveBytes <= p.Rules.SegmentBytes &&
		last.segment.NextOffset()-1-first <= math.MaxInt32 && p.spans(plans)
}

// spans tells whether the timestamps of the segments are near enough for one group. The first batch
// stands for the oldest record: what was merged before is measured again each time, so groups do
// not creep up on the newest segment. Segments without a batch have no timestamp, and do not
// matter.
func (p *pass) spans(plans []*plan) bool {
	last := plans[len(plans)-1]
	newest, _ := last.segment.MaxTimestamp()
	if p.Rules.TimestampSpanMax <= 0 || last.segment.SizeBytes() == 0 {
		return true
	}
	for _, plan := range plans[:len(plans)-1] {
		if oldest, ok := plan.segment.FirstTimestamp(); ok {
			return newest-oldest <= p.Rules.TimestampSpanMax.Milliseconds()
		}
	}
	return true
}
