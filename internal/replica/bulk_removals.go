package replica

import "time"

// A failed broker leaves the ISRs of very many partitions at once. The operator removes it from
// them in the writes that elect other leaders. If the leaders wrote the same PartitionSets at the
// same time, most of these writes would conflict. So a leader leaves bulkRemovalsMin or more
// removals to the operator for bulkDelay, and as long as images show progress, but at most for
// bulkDelayMax: the operator may be unavailable, and producers wait.
const (
	bulkRemovalsMin = 100
	bulkDelay       = 700 * time.Millisecond
	bulkDelayMax    = 5 * time.Second
)

// bulkRemovals decides whether a leader leaves removals to the operator. The zero value is ready
// for use.
type bulkRemovals struct {
	since time.Time // time of the first removals left to the operator; zero: none are left
	check time.Time // the next check for progress
	left  int       // number of removals at the last check
}

// leave decides about the removals that an evaluation has proposed; all is set if the evaluation
// covered all partitions. If leave is true, the caller withdraws the removals and evaluates them
// again after wait. If wait is 0, an evaluation is already scheduled.
func (b *bulkRemovals) leave(removals int, all bool, now time.Time) (wait time.Duration,
	leave bool) {
	switch {
	case b.since.IsZero():
		if removals < bulkRemovalsMin {
			return 0, false
		}
		b.since = now
	case now.Before(b.check) || !all && removals > 0:
		return 0, removals > 0
	case removals == 0 && !all:
		return 0, false
	case removals == 0 || removals >= b.left || now.Sub(b.since) >= bulkDelayMax:
		*b = bulkRemovals{}
		return 0, false
	}
	b.left, b.check = removals, now.Add(bulkDelay)
	return bulkDelay, true
}
