package logstore

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// sidecarMemoryBytes is what the making of a sidecar in the background holds: the least that sorts any segment in two steps. It comes
// on top of the budget of the passes, and only while one is made.
const sidecarMemoryBytes = 16 << 20

// tendSidecars makes missing key sidecars, again and again, until Close: one at a time, in turns over the logs, within the I/O budget
// of all workers. Without workers it does nothing: then there is no pass that would read them.
func (c *Cleaner) tendSidecars() {
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
		timer.Reset(c.options().Interval)
	}
}

// tendSidecarsOnce makes at most one sidecar of each log, and tells whether there may be more to make.
func (c *Cleaner) tendSidecarsOnce(now time.Time) (more bool) {
	for _, log := range c.store.Logs() {
		if c.ctx.Err() != nil {
			return false
		}
		more = log.tendSidecars(c.ctx, now, sidecarOptions{
			Options: keys.Options{MemoryBytes: sidecarMemoryBytes, Spend: c.spend}, read: c.spend, background: true,
		}) || more
	}
	return more
}
