package cleaner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// ioLimit limits the I/O rate of all passes, sidecars and estimates together (I40).
type ioLimit struct {
	current   atomic.Pointer[bucket]
	throttled atomic.Int64 // nanoseconds that all calls of wait have taken together
}

// bucket is a token bucket with a fixed rate. When the rate changes, a new bucket replaces the old
// one. A caller that waits for the old bucket, perhaps for hours, then continues with the new
// bucket.
type bucket struct {
	*rate.Limiter
	bytesRate int64         // 0 for no limit
	replaced  chan struct{} // closed when a newer bucket has replaced this one
}

// burstBytesMin is the smallest capacity of a token bucket, however low the rate is.
const burstBytesMin = 64 << 10

// set changes the rate to bytesRate bytes per second; 0 means no limit. Calls of set are not
// concurrent.
func (l *ioLimit) set(bytesRate int64) {
	old := l.current.Load()
	if old != nil && old.bytesRate == bytesRate {
		return
	}
	fresh := &bucket{rate.NewLimiter(rate.Inf, 0), bytesRate, make(chan struct{})}
	if bytesRate > 0 {
		fresh.Limiter = rate.NewLimiter(rate.Limit(bytesRate),
			int(max(burstBytesMin, bytesRate/10)))
	}
	l.current.Store(fresh)
	if old != nil {
		close(old.replaced)
	}
}

// wait takes n bytes from the bucket and waits until they are available. It holds no lock
// meanwhile; Kafka's cleaner sleeps inside a lock that its threads share. n may exceed the capacity
// of the bucket, so wait takes the bytes in parts. wait fails only if ctx ends.
func (l *ioLimit) wait(ctx context.Context, n int) error {
	_, err := l.timedWait(ctx, n)
	return err
}

// timedWait calls wait, and returns how long the call took; 0 if there is no limit.
func (l *ioLimit) timedWait(ctx context.Context, n int) (took time.Duration, err error) {
	began := time.Time{}
	for n > 0 {
		from := l.current.Load()
		if from.bytesRate == 0 {
			break
		}
		if began.IsZero() {
			began = time.Now()
		}
		part := min(n, from.Burst())
		taken, err := from.take(ctx, part)
		if err != nil {
			return 0, fmt.Errorf("wait for the I/O budget: %w", err)
		}
		if taken {
			n -= part
		}
	}
	if !began.IsZero() {
		took = time.Since(began)
		l.throttled.Add(int64(took))
	}
	return took, nil
}

// take waits for n bytes, which must not exceed the capacity. taken is false if the bucket was
// replaced while take waited.
func (b *bucket) take(ctx context.Context, n int) (taken bool, err error) {
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
