package kafka

// span is the part of a partition that a browse may read: from start, up to but excluding end.
type span struct{ start, end int64 }

// windowFactor is the growth of a window in which too few records were found. In a compacted topic
// most offsets have no record any more.
const windowFactor = 4

// backward returns the next window of offsets to read when a browse goes towards older records. It
// ends at before, and begins wanted offsets earlier, or at the start of the partition.
func (s span) backward(before, wanted int64) span {
	end := min(before, s.end)
	return span{max(s.start, end-max(1, wanted)), end}
}

// share returns how many of limit records a browse takes of each of n partitions, at least one.
func share(limit, n int) int { return max(1, (limit+n-1)/max(1, n)) }
