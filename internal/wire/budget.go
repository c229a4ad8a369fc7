package wire

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget limits the total memory of frames on all connections. Memory is granted to waiting frames
// in the order of arrival.
type budget struct {
	*semaphore.Weighted
	waiting *atomic.Int64 // number of waiting calls of acquire
}

func newBudget(bytes int64) budget {
	return budget{semaphore.NewWeighted(bytes), new(atomic.Int64)}
}

// acquire acquires bytes from the budget, and waits until enough bytes are free. If ctx ends first,
// it returns the error of ctx.
func (b budget) acquire(ctx context.Context, bytes int64) error {
	if b.TryAcquire(bytes) {
		return nil
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	return b.Acquire(ctx, bytes)
}

// contended reports whether any frame waits for memory from the budget.
func (b budget) contended() bool { return b.waiting.Load() > 0 }
