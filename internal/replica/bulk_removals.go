package replica

import "time"

// A failed broker leaves the ISRs of very many partitions at once. The operator removes the broker
// from these ISRs in the writes that elect other leaders. If the leaders wrote the same
// PartitionSets at the same time, most of these writes would conflict. So a leader leaves
// bulkRemovalsMin or more removals to the operator for bulkDelay, and longer if images show
// progress. It waits at most for bulkDelayMax, because the operator may be unavailable, and
// producers wait.
const (
	bulkRemovalsMin = 100
	bulkDelay       = 700 * time.Millisecond
	bulkDelayMax    = 5 * time.Second
)

// bulkRemovals decides whether a leader leaves removals to the operator. The zero value is ready
// for use.
type bulkRemovals struct {
	// time at which the first removals were left to the operator; zero if none are left
	since time.Time
	check time.Time // time of the next check for progress
	left  int       // number of removals at the last check
}

// leave decides whether a leader leaves the removals of an evaluation to the operator. all is true
// if the evaluation covered all partitions. If leave is true, the caller withdraws the removals,
// and evaluates them again after wait. If wait is 0, an evaluation is already scheduled.
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
