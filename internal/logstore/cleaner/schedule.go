package cleaner

import (
	"cmp"
	"context"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// watchInterval is the interval at which running passes are checked. So it is the longest time that
// a pass continues after its log was closed or truncated, or its settings changed (I35, I36).
const watchInterval = 250 * time.Millisecond

// run schedules passes until Close: at once, then every Interval, and whenever a pass has ended.
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

// endStale aborts passes whose log was closed, failed or was truncated, and those whose settings no
// longer apply. It also ends the background job of a log that was closed or is no longer compacted.
func (c *Cleaner) endStale() {
	type running struct {
		log         *logstore.Compaction
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

// samePass reports whether a pass that was started with settings a does the same as a pass with
// settings b.
func samePass(a, b *topicconfig.Settings) bool {
	if a == b {
		return true
	}
	x, y := logstore.PassRules(a), logstore.PassRules(b)
	sameDenser := x.DenseCodec == nil && y.DenseCodec == nil || x.DenseCodec != nil &&
		y.DenseCodec != nil &&
		*x.DenseCodec == *y.DenseCodec
	x.DenseCodec, y.DenseCodec = nil, nil
	return b.Compact && sameDenser && x == y && a.MinLag == b.MinLag
}

// logView is one log as the scheduler saw it. It holds no segments, so it may be kept for as long
// as a pass runs.
type logView struct {
	log      *logstore.Compaction
	settings *topicconfig.Settings
	logstore.Sections
	closed bool
}

// viewOf returns the current view of a log. It changes nothing. Only a compacted log is divided
// into sections.
func viewOf(log *logstore.Compaction, now time.Time) logView {
	view := logView{log: log, settings: log.Settings()}
	if view.settings.Compact {
		var ok bool
		view.Sections, ok = log.Sections(now)
		view.closed = !ok
	}
	return view
}

func (v logView) compacted() bool { return v.settings.Compact && !v.closed }

// schedule aborts passes whose log is gone and starts those that are due, as long as there are
// worker slots and memory. All logs are viewed before Cleaner.mu is taken: a reset of the first
// dirty offset writes a file. It reports whether anything runs that may have to be aborted.
func (c *Cleaner) schedule(now time.Time) (running bool) {
	var views []logView
	for _, log := range c.compactions() {
		if log.Settings().Compact {
			log.ResetFirstDirty() // reference I3: also of logs that are never chosen
		}
		views = append(views, viewOf(log, now))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(views)
	for _, next := range c.queueLocked(views, now) {
		if !c.startLocked(next.logView, next.passDue) {
			break
		}
	}
	return c.mu.passes > 0 || c.mu.background.log != nil
}

// forgetLocked drops the state of logs that are gone or no longer compacted, and cancels their
// passes. The state of a running pass stays until it has ended: no other pass may start in the same
// directory before.
func (c *Cleaner) forgetLocked(views []logView) {
	compacted := map[*logstore.Compaction]bool{}
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
		}
	}
}

// queued is a log whose pass is due.
type queued struct {
	logView
	passDue
	priority float64
}

// queueLocked updates the states and returns the logs whose pass is due, the most urgent first.
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

// startLocked starts a pass, and reports false if no worker slot or memory is left for it. The pass
// is started under the lock that Close takes, so Close joins it.
//
// Beside the passes that hold a slot, or had one and wait for their next time slice, only one pass
// is started that waits for its first slot. So the most urgent log gets the next slot, and waiting
// logs hold no memory.
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
	served, thorough := state.request, false
	if due.trigger == triggerRequested {
		state.serving, state.request, thorough = served.ticket, request{}, true
	}
	c.mu.passes++
	c.mu.grantedBytes += granted
	c.done.Go(func() {
		defer cancel()
		defer held.releaseAll()
		c.firstSlot(ctx, state, held)
		result := c.pass(ctx, state, view, c.passOptions(state, view, held, passBudget{
			memoryBytes: granted, workers: workers, thorough: thorough,
		}))
		if result == runAborted && thorough {
			c.requestAgain(state, served)
		}
	})
	return true
}

// firstSlot waits for the first worker slot of a pass. If ctx ends first, the pass notices.
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

// requestAgain restores a request whose pass was aborted, unless there is a newer one.
func (c *Cleaner) requestAgain(state *logState, served request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state.request.at.IsZero() {
		state.request = served
	}
	c.awake()
}
