package logstore

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// sidecarMemoryBytes is what the making of a sidecar holds at most: the least that sorts any
// segment in two steps. It is set aside of the cleaner's memory; a budget below 64 MiB sets less
// aside, and is then exceeded by the sidecar of a segment with very many records.
const sidecarMemoryBytes = 16 << 20

// tend makes missing key sidecars and stale estimates, again and again, until Close: one at a time,
// in turns over the logs, within the I/O budget of all workers. Without workers it does nothing:
// then there is no pass that would read them.
func (c *Cleaner) tend() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		}
		for more := true; more; {
			more = c.options().Workers > 0 && c.tendSidecarsOnce(time.Now())
		}
		if c.options().Workers > 0 {
			c.measureOnce(time.Now())
		}
		timer.Reset(c.options().Interval)
	}
}

// tendSidecarsOnce makes at most one sidecar of each log, and tells whether there may be more to
// make.
func (c *Cleaner) tendSidecarsOnce(now time.Time) (more bool) {
	for _, log := range c.store.Logs() {
		if c.ctx.Err() != nil {
			return false
		}
		ctx, done := c.tending(log)
		more = log.tendSidecars(ctx, now, sidecarOptions{
			Options: keys.Options{MemoryBytes: sidecarMemoryBytes, Spend: c.spend}, read: c.spend,
			background: true, maker: c.makerOf(nil),
		}) || more
		done()
	}
	return more
}

// tended is the log of which something is made in the background; nil: of none.
type tended struct {
	log    *Log
	cancel context.CancelFunc
}

// tending notes that something is made of a log. The context ends when that is not wanted any more,
// or with done, which must be called.
func (c *Cleaner) tending(log *Log) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.tended = tended{log, cancel}
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.tended = tended{}
	}
}

// makerOf lends the right to make a sidecar. Who has a worker gives it back while he waits: who
// holds the right may be waiting for that.
func (c *Cleaner) makerOf(work *shift) sidecarMaker {
	return sidecarMaker{
		lock: func(ctx context.Context) error {
			locked := false
			err := work.away(ctx, func() error {
				if locked = c.lockMaker(ctx.Done()); !locked {
					return ctx.Err()
				}
				return nil
			})
			if err != nil && locked {
				c.unlockMaker()
			}
			return err
		},
		unlock: c.unlockMaker,
	}
}
