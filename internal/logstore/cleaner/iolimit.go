package cleaner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// ioLimit is the I/O budget that all passes, sidecars and estimates share (I40).
type ioLimit struct {
	current   atomic.Pointer[bucket]
	throttled atomic.Int64 // nanoseconds that callers of wait have waited
}

// bucket is a token bucket of one rate. A new rate replaces the bucket: a caller that waits at the
// old rate, which may take hours, continues at the new rate.
type bucket struct {
	*rate.Limiter
	bytesRate int64         // 0: no limit
	replaced  chan struct{} // closed when there is a newer bucket
}

// burstBytesMin is the least capacity of the token bucket, however low the rate.
const burstBytesMin = 64 << 10

// set applies a rate in bytes a second; 0: no limit. Calls of set are not concurrent.
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

// wait takes n bytes from the bucket, and waits until they are available. No lock is held: Kafka
// sleeps inside a lock that its threads share. n may exceed the burst, so wait takes the bytes in
// parts. wait fails only when ctx ends.
func (l *ioLimit) wait(ctx context.Context, n int) error {
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
			return fmt.Errorf("wait for the I/O budget: %w", err)
		}
		if taken {
			n -= part
		}
	}
	if !began.IsZero() {
		l.throttled.Add(int64(time.Since(began)))
	}
	return nil
}

// take waits for n bytes, at most the burst. taken is false if the bucket was replaced meanwhile.
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
