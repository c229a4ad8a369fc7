package wire

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes that large frames hold together. Waiters are served first come, first
// served.
type budget struct {
	*semaphore.Weighted
	waiting *atomic.Int64 // calls of acquire that wait
}

func newBudget(bytes int64) budget {
	return budget{semaphore.NewWeighted(bytes), new(atomic.Int64)}
}

// acquire takes bytes of the budget, and waits until they are free. It fails with ctx's error when
// ctx ends first.
func (b budget) acquire(ctx context.Context, bytes int64) error {
	if b.TryAcquire(bytes) {
		return nil
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	return b.Acquire(ctx, bytes)
}

// contended reports whether a frame waits for the budget.
func (b budget) contended() bool { return b.waiting.Load() > 0 }
