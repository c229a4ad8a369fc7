package logstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// watchInterval is how often the passes that run are looked at: how long a pass goes on at most
// when its log is gone, cut, or not to be cleaned so any more (I35, I36).
const watchInterval = 250 * time.Millisecond

// run looks at the logs, again and again, until Close: at once, then each Interval, and whenever a
// pass has ended.
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

// endStale aborts passes whose log was closed, failed or was truncated, and those that go by
// settings that do not hold any more; and what is made in the background of a log that was closed
// or is not compacted any more.
func (c *Cleaner) endStale() {
	type running struct {
		log     *Log
		config  *config
		lineage int64
		cancel  context.CancelFunc
	}
	var passes []running
	c.mu.Lock()
	for _, state := range c.mu.logs {
		if state.running() {
			passes = append(passes, running{state.log, state.config, state.lineage, state.cancel})
		}
	}
	tended := c.mu.tended
	c.mu.Unlock()
	if tended.log != nil && (tended.log.list.Load() == nil || !tended.log.Settings().Compact) {
		tended.cancel()
	}
	for _, p := range passes {
		cut := p.lineage != lineageNone && p.log.lineage.Load() != p.lineage
		if cut || p.log.list.Load() == nil || p.log.fault.Load() != nil ||
			!samePass(p.config, p.log.config.Load()) {
			p.cancel()
		}
	}
}

// samePass tells whether a pass that was begun with one config does what one with the other would.
func samePass(a, b *config) bool {
	if a == b {
		return true
	}
	x, y := rulesOf(a.settings), rulesOf(b.settings)
	sameDenser := x.DenseCodec == nil && y.DenseCodec == nil || x.DenseCodec != nil &&
		y.DenseCodec != nil &&
		*x.DenseCodec == *y.DenseCodec
	x.DenseCodec, y.DenseCodec = nil, nil
	return b.settings.Compact && sameDenser && x == y && a.settings.MinLag == b.settings.MinLag
}

// look is one log as the scheduler saw it.
type look struct {
	log      *Log
	config   *config
	settings topicconfig.Settings
	view     cleanView // without segments
	horizon  int64     // Log.horizon
	records  int64     // about how many there are below the bound
	segments int
	closed   bool
	thorough bool // the pass leaves no garbage, whatever the settings allow

	// What a clean by hand does differently (offline.go); the scheduler sets neither.
	at  time.Time                                             // taken for now; zero: the clock's
	run func(context.Context, clean.Job) (clean.Stats, error) // instead of clean.Run
}

// lookAt takes what the scheduler needs to know of a log. It changes nothing, and holds the
// segments only while it computes: a look may be kept for as long as a pass runs.
func lookAt(l *Log, now time.Time) look {
	config := l.config.Load()
	seen := look{log: l, config: config, settings: config.settings}
	if !seen.settings.Compact {
		return seen
	}
	lineage := l.lineage.Load() // before the list, as in cleanView
	list, facts := l.cleanFacts()
	if list == nil {
		seen.closed = true
		return seen
	}
	defer list.release()
	seen.view = viewOf(list.handles, facts, seen.settings, now)
	seen.view.Lineage = lineage
	seen.segments = len(seen.view.Segments)
	for _, h := range list.handles {
		if h.Base() < seen.view.Bound {
			seen.records += recordsIn(h)
		}
	}
	seen.view.Segments = nil // not held
	seen.horizon = facts.horizon
	return seen
}

// recordBytesGuess is taken for the size of a record where nobody has counted yet.
const recordBytesGuess = 64

// recordsIn is about how many records a segment has. It reads nothing.
func recordsIn(h *handle) int64 {
	if note := h.noted(); note != nil && note.records > 0 {
		return int64(note.records)
	}
	return h.SizeBytes() / recordBytesGuess
}

// schedule aborts passes whose log is gone and begins those that are due, as far as there are
// workers and memory. All logs are looked at before Cleaner.mu is taken: a reset of the first dirty
// offset writes a file, and nobody shall wait for that. It tells whether anything runs now that may
// have to be aborted.
func (c *Cleaner) schedule(now time.Time) (running bool) {
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
		if !c.startLocked(chosen.look, chosen.need) {
			break
		}
	}
	return c.mu.passes > 0 || c.mu.tended.log != nil
}

// forgetLocked drops the state of logs that are gone or not compacted any more, and ends their
// passes. The state of a running pass stays until it has ended: until then no other may begin in
// the same directory.
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

// queueLocked brings the states up to date and returns the logs that are due, the most urgent
// first.
func (c *Cleaner) queueLocked(looks []look, now time.Time) []queued {
	var queue []queued
	for _, seen := range looks {
		if !seen.settings.Compact || seen.closed {
			continue
		}
		state := c.stateLocked(seen.log, now)
		if state == nil || state.running() {
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
		if wanted.early && now.Sub(state.due) < measurePatience {
			continue
		}
		queue = append(queue, queued{seen, wanted, state.priority(wanted, now)})
	}
	slices.SortStableFunc(queue,
		func(a, b queued) int { return cmp.Compare(b.priority, a.priority) })
	return queue
}

// measurePatience is how long a pass that is due because of the dirty ratio waits for the estimate
// that tells whether it pays.
const measurePatience = 10 * time.Second

// needLocked is what the log wants, unless it is in quarantine. Scheduler and status ask it alike,
// so that a log is never reported as queued which the scheduler would not take.
func (c *Cleaner) needLocked(state *cleanerState, seen look, now time.Time) need {
	if state.quarantine.holds(now, seen.config) {
		return need{}
	}
	return needOf(seen.view, seen.settings, state.wishes(seen), now)
}

// startLocked begins a pass, unless no worker or memory is left for it. Close joins it: it is
// started under the lock that Close takes.
//
// Beside the passes that have a worker, or had one and wait for their next turn, only one is begun
// that waits for its first: so the most urgent log is the next whenever a turn ends, and what waits
// holds no memory.
func (c *Cleaner) startLocked(seen look, wanted need) bool {
	if c.mu.closed || c.mu.opts.Workers == 0 || c.mu.fresh > 0 {
		return false
	}
	workers := c.mu.opts.Workers
	granted, enough := c.grantLocked(clean.MemoryTarget(seen.records, seen.segments, workers))
	if !enough {
		return false
	}
	state := c.mu.logs[seen.log.id]
	ctx, cancel := context.WithCancel(c.ctx)
	work := &shift{turns: &c.turns}
	state.fresh = !work.tryBegin()
	if state.fresh {
		c.mu.fresh++
	}
	state.cancel, state.trigger, state.config, state.lineage = cancel, wanted.trigger, seen.config,
		lineageNone
	state.granted, state.began, state.due = granted, time.Now(), time.Time{}
	state.progress = clean.PassProgress{Phase: clean.Indexing}
	asked := state.request
	if wanted.trigger == triggerRequested {
		state.serving = asked.ticket
		seen.thorough, state.request = true, request{}
	}
	c.mu.passes++
	c.mu.granted += granted
	c.done.Go(func() {
		defer cancel()
		defer work.end()
		c.firstTurn(ctx, state, work)
		result := c.pass(ctx, state, seen, budget{granted, workers, work})
		if result == runAborted && seen.thorough {
			c.askAgain(state, asked)
		}
	})
	return true
}

// firstTurn waits for a worker. If ctx ends before, the pass finds out by itself.
func (c *Cleaner) firstTurn(ctx context.Context, state *cleanerState, work *shift) {
	if !state.waits(c) {
		return
	}
	_ = work.begin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	state.fresh, state.began = false, time.Now()
	c.mu.fresh--
	c.awake()
}

// waits tells whether the pass had no turn yet.
func (s *cleanerState) waits(c *Cleaner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.fresh
}

// askAgain keeps what was asked for by hand when its pass was aborted.
func (c *Cleaner) askAgain(state *cleanerState, asked request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state.request.at.IsZero() {
		state.request = asked
	}
	c.awake()
}
