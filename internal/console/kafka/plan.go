package kafka

import "heartwood.dev/heartwood/internal/kafkaclient"

// windowFactor is the growth of a window in which too few records were found. In a compacted topic
// most offsets have no record any more.
const windowFactor = 4

// backward returns the next window of offsets to read when a browse goes towards older records. It
// ends at before, and begins wanted offsets earlier, or at the start of the partition.
func backward(s kafkaclient.Span, before, wanted int64) kafkaclient.Span {
	end := min(before, s.End)
	return kafkaclient.Span{Begin: max(s.Begin, end-max(1, wanted)), End: end}
}

// share returns how many of limit records a browse takes of each of n partitions, at least one.
func share(limit, n int) int { return max(1, (limit+n-1)/max(1, n)) }

// tailWindow returns the window of a partition that a step of a tail reads, from offset to the end,
// and the number of offsets that the step skips. Without a filter it reads at most quota offsets,
// the last ones. After a truncation below offset it reads nothing and continues at the end.
func tailWindow(offset, end int64, quota int, filtered bool) (window kafkaclient.Span,
	skipped int64) {
	from := min(offset, end)
	if most := int64(quota); !filtered && end-from > most {
		return kafkaclient.Span{Begin: end - most, End: end}, end - most - from
	}
	return kafkaclient.Span{Begin: from, End: end}, 0
}
