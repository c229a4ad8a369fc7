package logstore

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// bucket is the token bucket of all workers (I40), for one rate. A new rate is a new bucket: who
// waits at the old one, which may take hours, goes over to it.
type bucket struct {
	*rate.Limiter
	bytesRate int64         // 0: no limit
	replaced  chan struct{} // closed when there is a newer one
}

// minBurstBytes is the least the token bucket holds, however low the rate.
const minBurstBytes = 64 << 10

// setRate puts an I/O rate into effect, bytes a second; 0: no limit. Configure is the only one to
// call it, one at a time.
func (c *Cleaner) setRate(bytesRate int64) {
	old := c.bucket.Load()
	if old != nil && old.bytesRate == bytesRate {
		return
	}
	fresh := &bucket{rate.NewLimiter(rate.Inf, 0), bytesRate, make(chan struct{})}
	if bytesRate > 0 {
		fresh.Limiter = rate.NewLimiter(rate.Limit(bytesRate),
			int(max(minBurstBytes, bytesRate/10)))
	}
	c.bucket.Store(fresh)
	if old != nil {
		close(old.replaced)
	}
}

// spend takes n bytes out of the token bucket, and waits for them. No lock is held: Kafka sleeps
// inside a lock that its threads share. n may exceed the burst, so it is taken in parts. It fails
// only when ctx ends.
func (c *Cleaner) spend(ctx context.Context, n int) error {
	began := time.Time{}
	for n > 0 {
		from := c.bucket.Load()
		if from.bytesRate == 0 {
			break
		}
		if began.IsZero() {
			began = time.Now()
		}
		part := min(n, from.Burst())
		paid, err := from.take(ctx, part)
		if err != nil {
			return fmt.Errorf("wait for the I/O budget: %w", err)
		}
		if paid {
			n -= part
		}
	}
	if !began.IsZero() {
		c.mu.Lock()
		c.mu.throttled += time.Since(began)
		c.mu.Unlock()
	}
	return nil
}

// take waits for n bytes, at most the burst. paid is false when a newer bucket is to be asked.
func (b *bucket) take(ctx context.Context, n int) (paid bool, err error) {
	reserved := b.ReserveN(time.Now(), n)
	delay := reserved.Delay()
	if delay == 0 {
		return true, ctx.Err()
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-b.replaced:
		return false, nil
	case <-ctx.Done():
		reserved.Cancel()
		return false, ctx.Err()
	}
}
