package cleaner

import (
	"cmp"
	"context"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// watchInterval is the interval at which endStale checks the running passes. It is therefore the
// longest time that a pass continues after its log was closed or truncated, or after its settings
// changed (I35, I36).
const watchInterval = 250 * time.Millisecond

// run calls schedule until Close: at once, then at every Interval, and whenever a pass has ended or
// the options have changed.
func (c *Cleaner) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	watch := time.NewTicker(watchInterval)
	defer watch.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-watch.C:
			c.endStale()
			continue
		case <-c.wake:
		case <-timer.C:
		}
		if c.schedule(time.Now()) {
			watch.Reset(watchInterval)
		} else {
			watch.Stop()
		}
		timer.Reset(c.options().Interval)
	}
}

// endStale aborts passes whose log was closed, has failed or was truncated, and passes whose
// settings have changed. It also cancels the background job if the job's log was closed or is no
// longer compacted.
func (c *Cleaner) endStale() {
	type running struct {
		log         *compaction.Compaction
		settings    *topicconfig.Settings
		truncations int64
		cancel      context.CancelFunc
	}
	var passes []running
	c.mu.Lock()
	for _, state := range c.mu.logs {
		if state.running() {
			passes = append(passes, running{state.log, state.settings, state.truncations,
				state.cancel})
		}
	}
	background := c.mu.background
	c.mu.Unlock()
	if log := background.log; log != nil && (log.Closed() || !log.Settings().Compact) {
		background.cancel()
	}
	for _, p := range passes {
		truncated := p.truncations != truncationsUnknown && p.log.Truncations() != p.truncations
		if truncated || p.log.Stopped() || !samePass(p.settings, p.log.Settings()) {
			p.cancel()
		}
	}
}

// samePass reports whether settings a and b result in the same pass. If so, a pass that was started
// with a may continue under b.
func samePass(a, b *topicconfig.Settings) bool {
	if a == b {
		return true
	}
	x, y := compaction.PassRules(a), compaction.PassRules(b)
	sameDenser := x.DenseCodec == nil && y.DenseCodec == nil || x.DenseCodec != nil &&
		y.DenseCodec != nil &&
		*x.DenseCodec == *y.DenseCodec
	x.DenseCodec, y.DenseCodec = nil, nil
	return b.Compact && sameDenser && x == y && a.MinLag == b.MinLag
}

// logView is the state of one log when viewOf was called. It keeps no segment open, so it may be
// kept for as long as a pass runs.
type logView struct {
	log      *compaction.Compaction
	settings *topicconfig.Settings
	compaction.Sections
	closed bool
}

// viewOf returns the current state of a log, without changing the log. It computes the sections
// only if the log is compacted.
func viewOf(log *compaction.Compaction, now time.Time) logView {
	view := logView{log: log, settings: log.Settings()}
	if view.settings.Compact {
		var ok bool
		view.Sections, ok = log.Sections(now)
		view.closed = !ok
	}
	return view
}

func (v logView) compacted() bool { return v.settings.Compact && !v.closed }

// schedule aborts passes whose log was closed, and starts the passes that the logs need, as long as
// there are worker slots and memory. It reads the state of all logs before it locks Cleaner.mu,
// because resetting a first dirty offset writes a file. It reports whether a pass or a background
// job is running, because endStale may have to abort it.
func (c *Cleaner) schedule(now time.Time) (running bool) {
	var views []logView
	for _, log := range c.compactions() {
		if log.Settings().Compact {
			log.Progress.ResetFirstDirty() // I3; applies to all logs, even logs that never need a pass
		}
		views = append(views, viewOf(log, now))
	}
	c.rollActive(views, now)
	var removed []passlog.Key
	defer func() { c.history.Remove(removed) }() // after the unlock, because Remove writes a file
	c.mu.Lock()
	defer c.mu.Unlock()
	removed = c.forgetLocked(views)
	for _, next := range c.queueLocked(views, now) {
		if !c.startLocked(next.logView, next.passDue) {
			break
		}
	}
	return c.mu.passes > 0 || c.mu.background.log != nil
}

// forgetLocked deletes the state of logs that were closed or are no longer compacted, and cancels
// their passes. It keeps the state of a running pass until the pass has ended, because no other
// pass may start in the same directory before. It returns the keys of the closed logs.
func (c *Cleaner) forgetLocked(views []logView) (removed []passlog.Key) {
	compacted := map[*compaction.Compaction]bool{}
	for _, view := range views {
		compacted[view.log] = view.compacted()
	}
	for id, state := range c.mu.logs {
		switch {
		case compacted[state.log]:
		case state.running():
			state.cancel()
		default:
			delete(c.mu.logs, id)
			if state.log.Closed() {
				removed = append(removed, keyOf(state.log))
			}
		}
	}
	return removed
}

// queued is a log that needs a pass now, with the pass's reason and priority.
type queued struct {
	logView
	passDue
	priority float64
}

// queueLocked updates the states of all logs. It returns the logs that need a pass now, in
// descending order of priority.
func (c *Cleaner) queueLocked(views []logView, now time.Time) []queued {
	var queue []queued
	for _, view := range views {
		if !view.compacted() {
			continue
		}
		state := c.stateLocked(view.log, now)
		if state == nil || state.running() {
			continue
		}
		view.log.SetQuarantined(state.quarantine.active(now, view.settings))
		due := state.passDue(view, now)
		if due.trigger == "" {
			state.due = time.Time{}
			continue
		}
		if state.due.IsZero() {
			state.due = now
		}
		if due.early && now.Sub(state.due) < earlyWaitMax {
			continue
		}
		queue = append(queue, queued{view, due, state.priority(due, now)})
	}
	slices.SortStableFunc(queue,
		func(a, b queued) int { return cmp.Compare(b.priority, a.priority) })
	return queue
}

// startLocked starts a pass. It returns false if no worker slot or no memory is left for the pass.
// It starts the goroutine while Cleaner.mu is locked, which Close also locks, so Close waits for
// the goroutine.
//
// At most one pass at a time waits for its first worker slot. So the log with the highest priority
// gets the next free slot, and other waiting logs use no memory.
func (c *Cleaner) startLocked(view logView, due passDue) bool {
	if c.mu.closed || c.mu.opts.Workers == 0 || c.mu.waiting > 0 {
		return false
	}
	workers := c.mu.opts.Workers
	granted, enough := c.grantLocked(clean.MemoryTarget(view.Records, view.Segments, workers))
	if !enough {
		return false
	}
	state := c.mu.logs[view.log.ID()]
	ctx, cancel := context.WithCancel(c.ctx)
	held := &heldSlots{slots: &c.slots}
	state.waiting = !held.tryAcquire()
	if state.waiting {
		c.mu.waiting++
	}
	state.cancel, state.trigger, state.settings = cancel, due.trigger, view.settings
	state.truncations = truncationsUnknown
	state.granted, state.began, state.due = granted, time.Now(), time.Time{}
	state.progress = clean.PassProgress{Phase: clean.Indexing}
	served, thorough, garbageMax := state.request, false, 0
	switch due.trigger {
	case triggerRequested:
		state.serving, state.request, thorough = served.ticket, request{}, true
	case triggerPressure:
		// Under moderate pressure a thorough pass would rewrite every segment that has a dead
		// record.
		thorough, garbageMax = state.pressure >= Severe, pressureGarbageMax
	}
	c.mu.passes++
	c.mu.grantedBytes += granted
	c.done.Go(func() {
		defer cancel()
		defer held.releaseAll()
		c.firstSlot(ctx, state, held)
		result := c.pass(ctx, state, view, c.passOptions(state, view, held, passBudget{
			memoryBytes: granted, workers: workers, thorough: thorough,
			garbageMax: garbageMax,
		}))
		if result == runAborted && due.trigger == triggerRequested {
			c.requestAgain(state, served)
		}
	})
	return true
}

// firstSlot waits for a pass's first worker slot. If ctx ends first, the following pass fails with
// the error of ctx.
func (c *Cleaner) firstSlot(ctx context.Context, state *logState, held *heldSlots) {
	c.mu.Lock()
	waiting := state.waiting
	c.mu.Unlock()
	if !waiting {
		return
	}
	_ = held.acquire(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	state.waiting, state.began = false, time.Now()
	c.mu.waiting--
	c.awake()
}

// requestAgain restores a request whose pass was aborted, unless a newer request exists.
func (c *Cleaner) requestAgain(state *logState, served request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state.request.moment.IsZero() {
		state.request = served
	}
	c.awake()
}
