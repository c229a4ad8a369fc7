package cleaner

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
)

// runBackground builds missing key sidecars and repeats stale garbage estimates until Close. It
// builds one sidecar or estimate at a time, visits the logs in turn, and shares the passes' I/O
// budget. If there are no worker slots, it does nothing, because no pass would use the sidecars and
// estimates.
func (c *Cleaner) runBackground() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		}
		for more := true; more; {
			more = c.options().Workers > 0 && c.buildSidecars(time.Now())
		}
		if c.options().Workers > 0 {
			c.estimateAll(time.Now())
		}
		timer.Reset(c.options().Interval)
	}
}

// buildSidecars builds at most one key sidecar for each log. It reports whether more sidecars may
// be missing.
func (c *Cleaner) buildSidecars(now time.Time) (more bool) {
	for _, log := range c.compactions() {
		if c.ctx.Err() != nil {
			return false
		}
		ctx, done := c.beginBackground(log)
		more = log.BuildSidecar(ctx, now, compaction.BuildOptions{
			Slot: c.sidecarSlotFor(nil), Throttle: c.limit.wait,
		}) || more
		done()
	}
	return more
}

// estimateAll estimates the garbage of each compacted log that has changed too much since its last
// estimate.
func (c *Cleaner) estimateAll(now time.Time) {
	for _, log := range c.compactions() {
		view := viewOf(log, now)
		if !view.compacted() || !c.needsEstimate(view, now) {
			continue
		}
		found, err := c.estimateOne(log)
		if errors.Is(err, compaction.ErrSidecarsMissing) || errors.Is(err, context.Canceled) {
			continue
		}
		if err != nil {
			c.options().Logger.Debug("failed to estimate garbage", "partition", log.ID(), "error",
				err)
		}
		c.mu.Lock()
		if state := c.stateLocked(log, now); state != nil && !state.running() {
			state.estimate = estimate{made: true, Garbage: found}
		}
		c.mu.Unlock()
		c.awake()
	}
}

// estimateOne waits for the sidecar slot, and then estimates the garbage of a log.
func (c *Cleaner) estimateOne(log *compaction.Compaction) (compaction.Garbage, error) {
	ctx, done := c.beginBackground(log)
	defer done()
	if !c.lockSidecarSlot(ctx.Done()) {
		return compaction.Garbage{}, ctx.Err()
	}
	defer c.unlockSidecarSlot()
	return log.EstimateGarbage(ctx, compaction.EstimateOptions{
		MemoryBytes: c.options().sidecarsMemoryBytes(), Throttle: c.limit.wait,
	})
}

func (c *Cleaner) needsEstimate(view logView, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateLocked(view.log, now)
	return state != nil && !state.running() && view.CleanBytes+view.DirtyBytes > 0 &&
		state.estimate.stale(view.Sections)
}

// backgroundJob is the log for which the background goroutine is computing a sidecar or an
// estimate. log is nil if the goroutine computes neither.
type backgroundJob struct {
	log    *compaction.Compaction
	cancel context.CancelFunc
}

// beginBackground records that the background goroutine now computes a sidecar or an estimate for a
// log. The returned context ends when the log is closed or no longer compacted (endStale), or when
// the returned function done is called. The caller must call done.
func (c *Cleaner) beginBackground(log *compaction.Compaction) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.background = backgroundJob{log, cancel}
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.background = backgroundJob{}
	}
}

// sidecarSlotFor returns the sidecar slot in the form that a pass uses. While a pass waits for the
// sidecar slot, it releases its worker slot, because the holder of the sidecar slot may be waiting
// for a worker slot. held contains the pass's worker slot; it is nil for the background goroutine.
func (c *Cleaner) sidecarSlotFor(held *heldSlots) sidecars.Slot {
	return sidecars.Slot{
		Lock: func(ctx context.Context) error {
			locked := false
			err := held.releaseDuring(ctx, func() error {
				if locked = c.lockSidecarSlot(ctx.Done()); !locked {
					return ctx.Err()
				}
				return nil
			})
			if err != nil && locked {
				c.unlockSidecarSlot()
			}
			return err
		},
		Unlock: c.unlockSidecarSlot,
	}
}
