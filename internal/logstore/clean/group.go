package clean

import (
	"math"
	"time"
)

// smallShare defines a small segment: its live bytes are at most this share of a full segment.
// Merging larger segments would rewrite the same bytes again and again for little benefit
// (docs/cleaner.md).
const smallShare = 16

// rewriteGroup is a run of neighbouring segments that one rewrite merges into new segments.
type rewriteGroup []*plan

// rewriteGroups forms the rewrite groups of a window from the chosen segments and the small
// segments next to them. The live bytes and the offsets of a group fit one segment (I30), unless it
// has a single source. Small segments without a chosen one are merged if that is worth it.
func rewriteGroups(plans []*plan, segmentBytes int64, spanMax time.Duration) []rewriteGroup {
	var groups []rewriteGroup
	for i := 0; i < len(plans); {
		j, live, chosen := i, int64(0), false
		for j < len(plans) && joins(plans[i:j+1], live, segmentBytes, spanMax) {
			live += plans[j].liveBytes
			chosen = chosen || plans[j].chosen
			j++
		}
		if chosen || worthMerging(plans[i:j], live) {
			groups = append(groups, plans[i:j])
		}
		// j == i: the segment cannot even start a group, and is not rewritten.
		i = max(j, i+1)
	}
	return groups
}

// worthMerging reports whether small segments, none of which was chosen, are worth merging: if the
// largest is at most half of them. Then a byte is rewritten each time its segment has doubled,
// which is rare, and not each time a small segment was added.
func worthMerging(group rewriteGroup, live int64) bool {
	largest := int64(0)
	for _, plan := range group {
		largest = max(largest, plan.liveBytes)
	}
	return len(group) > 1 && 2*largest <= live
}

// joins reports whether the last of plans can join a group of those before it, which have live
// bytes. A segment that is neither chosen nor small ends a group, because copying it frees nothing;
// so does a segment whose keys are unknown. A chosen segment can start a group whatever its size,
// because output rolls (I31).
func joins(plans []*plan, live, segmentBytes int64, spanMax time.Duration) bool {
	last := plans[len(plans)-1]
	if last.keys == nil || !last.chosen && last.liveBytes > segmentBytes/smallShare {
		return false
	}
	if len(plans) == 1 {
		return true
	}
	// The last offset is that of the segment's content, not the base offset of the next segment:
	// output rolls where an offset does not fit.
	first := plans[0].segment.Base()
	return live+last.liveBytes <= segmentBytes &&
		last.segment.NextOffset()-1-first <= math.MaxInt32 && withinSpan(plans, spanMax)
}

// withinSpan reports whether the timestamps of the segments are close enough for one group. The
// first batch represents the oldest record of a segment. So the age of a merged segment is that of
// its oldest record, and groups do not grow towards the newest segment. Segments without batches
// have no timestamps and are ignored.
func withinSpan(plans []*plan, spanMax time.Duration) bool {
	last := plans[len(plans)-1]
	newest, _ := last.segment.MaxTimestamp()
	if spanMax <= 0 || last.segment.SizeBytes() == 0 {
		return true
	}
	for _, plan := range plans[:len(plans)-1] {
		if oldest, ok := plan.segment.FirstTimestamp(); ok {
			return newest-oldest <= spanMax.Milliseconds()
		}
	}
	return true
}

// chosenAlone splits a group into one group per chosen segment.
func (g rewriteGroup) chosenAlone() (all []rewriteGroup) {
	for i, plan := range g {
		if plan.chosen {
			all = append(all, g[i:i+1])
		}
	}
	return all
}
