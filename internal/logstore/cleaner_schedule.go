package logstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// run looks at the logs, again and again, until Close: at once, then each Interval, and whenever a pass has ended.
func (c *Cleaner) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		c.schedule(time.Now())
		timer.Reset(c.options().Interval)
	}
}

// look is one log as the scheduler saw it.
type look struct {
	log      *Log
	config   *config
	settings topicconfig.Settings
	view     cleanView // without segments
	horizon  int64     // Log.horizon
	closed   bool

	// What a clean by hand does differently (offline.go); the scheduler sets neither.
	at  time.Time                                             // taken for now; zero: the clock's
	run func(context.Context, clean.Job) (clean.Stats, error) // instead of clean.Run
}

// lookAt takes what the scheduler needs to know of a log. It changes nothing, and holds the segments only while it computes:
// a look may be kept for as long as a pass runs.
func lookAt(l *Log, now time.Time) look {
	config := l.config.Load()
	seen := look{log: l, config: config, settings: config.settings}
	if !seen.settings.Compact {
		return seen
	}
	list, facts := l.cleanFacts()
	if list == nil {
		seen.closed = true
		return seen
	}
	defer list.release()
	seen.view = viewOf(list.handles, facts, seen.settings, now)
	seen.view.Segments = nil // not held
	seen.horizon = facts.horizon
	return seen
}

// schedule aborts passes whose log is gone and starts those that are due, as far as there are workers. All logs are looked
// at before Cleaner.mu is taken: a reset of the first dirty offset writes a file, and nobody shall wait for that.
func (c *Cleaner) schedule(now time.Time) {
	var looks []look
	for _, log := range c.store.Logs() {
		if log.Settings().Compact {
			log.resetFirstDirty() // reference I3: also of logs that are never chosen
		}
		looks = append(looks, lookAt(log, now))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(looks)
	for _, chosen := range c.queueLocked(looks, now) {
		if c.mu.closed || c.mu.busy >= c.mu.opts.Workers {
			return
		}
		c.startLocked(chosen.look, chosen.need)
	}
}

// forgetLocked drops the state of logs that are gone or not compacted any more, and ends their passes. The state of a running
// pass stays until it has ended: until then no other may begin in the same directory.
func (c *Cleaner) forgetLocked(looks []look) {
	compacted := map[*Log]bool{}
	for _, seen := range looks {
		compacted[seen.log] = seen.settings.Compact && !seen.closed
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

// queued is a log that waits for a worker.
type queued struct {
	look
	need
	priority float64
}

// queueLocked brings the states up to date and returns the logs that are due, the most urgent first.
func (c *Cleaner) queueLocked(looks []look, now time.Time) []queued {
	var queue []queued
	for _, seen := range looks {
		if !seen.settings.Compact || seen.closed {
			continue
		}
		state := c.mu.logs[seen.log.id]
		if state == nil {
			state = &cleanerState{log: seen.log, seen: now}
			c.mu.logs[seen.log.id] = state
		}
		if state.log != seen.log || state.running() { // its namesake is not forgotten yet, or it is at work
			continue
		}
		seen.log.quarantined.Store(state.quarantine.holds(now, seen.config))
		wanted := c.needLocked(state, seen, now)
		if wanted.trigger == "" {
			state.due = time.Time{}
			continue
		}
		if state.due.IsZero() {
			state.due = now
		}
		queue = append(queue, queued{seen, wanted, state.priority(wanted, now)})
	}
	slices.SortStableFunc(queue, func(a, b queued) int { return cmp.Compare(b.priority, a.priority) })
	return queue
}

// needLocked is what the log wants, unless it is in quarantine. Scheduler and status ask it alike, so that a log is never reported
// as queued which the scheduler would not take.
func (c *Cleaner) needLocked(state *cleanerState, seen look, now time.Time) need {
	if state.quarantine.holds(now, seen.config) {
		return need{}
	}
	return needOf(seen.view, seen.settings, state.tombstonesDue(seen), now)
}

// startLocked starts a pass. Close joins it: it is started under the lock that Close takes. Its share of the memory is fixed here;
// after a Configure that lowers the budget, passes that run hold more than that until they end.
func (c *Cleaner) startLocked(seen look, wanted need) {
	state := c.mu.logs[seen.log.id]
	ctx, cancel := context.WithCancel(c.ctx)
	state.cancel, state.began, state.due = cancel, time.Now(), time.Time{}
	state.progress = clean.Progress{Phase: clean.Indexing}
	c.mu.busy++
	budget := c.mu.opts.passMemoryBytes()
	c.done.Go(func() {
		defer cancel()
		c.pass(ctx, state, seen, wanted, budget)
	})
}
