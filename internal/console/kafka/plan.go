package kafka

import "heartwood.dev/heartwood/internal/kafkaclient"

// windowFactor is the factor by which a window grows if it contained too few records. In a
// compacted topic, most offsets may no longer have a record.
const windowFactor = 4

// backward returns the next window of offsets for a browse towards older records. The window ends
// at offset before. It begins at offset before-wanted or at the start of the partition.
func backward(s kafkaclient.Span, before, wanted int64) kafkaclient.Span {
	end := min(before, s.End)
	return kafkaclient.Span{Begin: max(s.Begin, end-max(1, wanted)), End: end}
}

// share returns how many records a browse reads from each of n partitions if it reads limit records
// in total. The result is at least one.
func share(limit, n int) int { return max(1, (limit+n-1)/max(1, n)) }

// tailWindow returns the window of offsets that one step of a tail reads in a partition, and the
// number of offsets that the step skips. The window extends from offset to end. Without a filter,
// it contains at most the last quota offsets. If a truncation has moved the end below offset, the
// window is empty, and the tail continues at the end.
func tailWindow(offset, end int64, quota int, filtered bool) (window kafkaclient.Span,
	skipped int64) {
	from := min(offset, end)
	if most := int64(quota); !filtered && end-from > most {
		return kafkaclient.Span{Begin: end - most, End: end}, end - most - from
	}
	return kafkaclient.Span{Begin: from, End: end}, 0
}
