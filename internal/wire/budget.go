package wire

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget bounds how many bytes large frames hold together. Who waits for a share gets it in the
// order of coming.
type budget struct {
	*semaphore.Weighted
	waiting *atomic.Int64 // how many wait in acquire
}

func newBudget(bytes int64) budget {
	return budget{semaphore.NewWeighted(bytes), new(atomic.Int64)}
}

// acquire waits for a share until ctx ends, whose error it then returns.
func (b budget) acquire(ctx context.Context, bytes int64) error {
	if b.TryAcquire(bytes) {
		return nil
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	return b.Acquire(ctx, bytes)
}

// wanted tells whether somebody waits for a share.
func (b budget) wanted() bool { return b.waiting.Load() > 0 }
