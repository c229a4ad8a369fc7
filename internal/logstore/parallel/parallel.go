// Package parallel calls a function for many elements concurrently, and ends the tasks of a log
// before the log closes.
package parallel

import (
	"sync"
	"sync/atomic"
)

// Each calls do for each element, with at most workersMax concurrent calls, and returns when all
// calls have returned. There may be more workers than processors, because a worker mostly waits for
// the disk. A slow call occupies one worker and does not delay the other elements.
func Each[T any](all []T, workersMax int, do func(T)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(workersMax, len(all)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				do(all[i])
			}
		})
	}
	workers.Wait()
}
