package clean

import (
	"math"
	"time"
)

// smallShare defines a small segment: its live bytes are at most 1/smallShare of a full segment.
// Merging larger segments would repeatedly rewrite the same bytes for little benefit
// (docs/internals/cleaner.md).
const smallShare = 16

// rewriteGroup is a run of adjacent segments that one rewrite merges into new segments.
type rewriteGroup []*plan

// rewriteGroups forms a window's rewrite groups from the chosen segments and the small segments
// next to them. The live bytes and the offsets of a group of two or more sources fit into one
// segment (I30). A run of small segments without a chosen segment becomes a group if worthMerging
// permits it.
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
		// If j == i, the segment cannot even start a group, and is not rewritten.
		i = max(j, i+1)
	}
	return groups
}

// worthMerging reports whether small segments, none of which is chosen, are worth merging: the
// largest segment must contain at most half of the group's live bytes. So a merge at least doubles
// the size of the segment that contains each rewritten byte. Otherwise every new small segment
// would cause a rewrite of its neighbours.
func worthMerging(group rewriteGroup, live int64) bool {
	largest := int64(0)
	for _, plan := range group {
		largest = max(largest, plan.liveBytes)
	}
	return len(group) > 1 && 2*largest <= live
}

// joins reports whether the last of the plans can join a rewrite group of the preceding plans. live
// is the number of live bytes in that group. A segment that is neither chosen nor small ends a
// group, because copying it would free nothing. A segment without a sidecar ends a group, too. A
// chosen segment can start a group whatever its size is, because the output is rolled (I31).
func joins(plans []*plan, live, segmentBytes int64, spanMax time.Duration) bool {
	last := plans[len(plans)-1]
	if last.keys == nil || !last.chosen && last.liveBytes > segmentBytes/smallShare {
		return false
	}
	if len(plans) == 1 {
		return true
	}
	// The check uses the segment's last offset and not the next segment's base offset, because
	// there may be a large gap without records between the two offsets.
	first := plans[0].segment.Base()
	return live+last.liveBytes <= segmentBytes &&
		last.segment.NextOffset()-1-first <= math.MaxInt32 && withinSpan(plans, spanMax)
}

// withinSpan reports whether the last of the plans is close enough in time for a group with the
// preceding plans: its newest timestamp may be at most spanMax after the timestamp of the group's
// first batch. When segments are merged repeatedly, the first batch remains the oldest, so a group
// cannot gradually grow towards the newest segment. Segments without batches have no timestamps and
// are ignored.
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

// chosenAlone returns a separate group for each chosen segment of a group, and omits the other
// segments.
func (g rewriteGroup) chosenAlone() (all []rewriteGroup) {
	for i, plan := range g {
		if plan.chosen {
			all = append(all, g[i:i+1])
		}
	}
	return all
}
