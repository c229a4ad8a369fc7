package logstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// CleanerOptions of a Cleaner.
type CleanerOptions struct {
	// logs or slices worked on at once; default 1; 0 from the user means none: pass -1
	Workers     int
	MemoryBytes int64         // for all workers together; default 128 MiB
	IOBytesRate int64         // reads plus writes a second, of all workers; 0: no limit
	Interval    time.Duration // how often logs are looked at, at most 1 s; default 1 s
	Logger      *slog.Logger  // default slog.Default()
}

// abortWithin bounds how long a pass goes on over a log that was closed: it is a look of the
// scheduler that finds this out and cancels the pass, so no Interval may be longer.
const abortWithin = time.Second

func (o CleanerOptions) withDefaults() CleanerOptions {
	switch {
	case o.Workers == 0:
		o.Workers = 1
	case o.Workers < 0:
		o.Workers = 0
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 128 << 20
	}
	if o.Interval <= 0 || o.Interval > abortWithin {
		o.Interval = abortWithin
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Cleaner cleans the logs of a store in the background: it picks the dirtiest, one pass a log, and
// quarantines what fails.
//
// It has one goroutine that looks at the logs (cleaner_schedule.go), one that makes key sidecars
// and estimates (cleaner_sidecars.go), and for each pass one, or as many as it has workers
// (cleaner_pass.go, cleaner_turns.go). Cleaner.mu guards all of its state; it is taken for moments
// only, and never with a lock of a Log or the Store held. The lock of turns is taken with it or
// without, and no other under that.
type Cleaner struct {
	store  *Store
	bucket atomic.Pointer[bucket]
	turns  turns
	// maker is held by who makes a sidecar or an estimate: one at a time, for the memory they take.
	// It is taken before sidecars.making and before a worker, so none of those is held by who waits
	// for it.
	maker chan struct{}

	stop context.CancelFunc
	ctx  context.Context // ends with stop: the passes' parent
	wake chan struct{}   // a pass ended, or the options changed; buffered 1
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		closed    bool
		opts      CleanerOptions
		logs      map[PartitionID]*cleanerState
		passes    int   // begun, and not ended
		fresh     int   // of passes, those that wait for their first turn
		granted   int64 // bytes of memory, of all passes
		making    int64 // bytes of memory that who holds maker takes
		tended    tended
		throttled time.Duration
	}
}

// NewCleaner starts a cleaner on a store; Close stops it, within a second, and joins its
// goroutines.
func NewCleaner(store *Store, opts CleanerOptions) *Cleaner {
	c := newCleaner(store, opts)
	c.done.Go(c.run)
	c.done.Go(c.tend)
	return c
}

// newCleaner returns a cleaner that does nothing by itself.
func newCleaner(store *Store, opts CleanerOptions) *Cleaner {
	c := &Cleaner{store: store, wake: make(chan struct{}, 1), maker: make(chan struct{}, 1)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.logs = map[PartitionID]*cleanerState{}
	c.Configure(opts)
	return c
}

// Configure puts a new budget into effect. Passes that run go on, with as many workers as there are
// now and at the new rate, unless there are none any more, or they hold more memory than all may
// now: those are aborted, and begun again within the new budget. What failed is tried again at
// once: the old budget may have been the reason.
func (c *Cleaner) Configure(opts CleanerOptions) {
	opts = opts.withDefaults()
	c.mu.Lock()
	c.mu.opts = opts
	for _, state := range c.mu.logs {
		state.quarantine = quarantine{}
		if state.running() && (opts.Workers == 0 || c.mu.granted > opts.passesMemoryBytes()) {
			state.cancel()
		}
	}
	c.mu.Unlock()
	c.turns.resize(opts.Workers)
	c.setRate(opts.IOBytesRate)
	c.awake()
}

// options returns what the last Configure set, with its defaults.
func (c *Cleaner) options() CleanerOptions {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.opts
}

// awake makes the scheduler look soon. It never blocks, so it may be called with Cleaner.mu held.
func (c *Cleaner) awake() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Close stops the cleaner. Passes end within one batch; what they committed stays.
func (c *Cleaner) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.stop()
	c.done.Wait()
}

// cleanerState is what the cleaner knows of one log.
//
// Its life: made by the scheduler when it first sees the log, or by CleanNow; running from
// startLocked to finish; dropped by forgetLocked when the log is gone or not compacted any more,
// but never while a pass runs. Cleaner.mu guards all fields but log, which never changes.
type cleanerState struct {
	// a topic that is deleted and made again has another Log under the same id, and a state of its
	// own
	log  *Log
	seen time.Time // when the cleaner first saw the log
	due  time.Time // since when a pass is due; zero if none is

	quarantine quarantine
	request    request
	estimate   estimate
	oldest     time.Time // clean.Stats.OldestGarbage of the last pass
	ended      time.Time // when the last pass did
	counters   counters
	last       *report.Pass // the last that ended; nil before. It is not written to any more
	// Tickets of requests: asked is the highest that was given, served the highest that a pass has
	// served; served <= asked.
	asked, served int64

	// Of the pass that runs.
	cancel   context.CancelFunc // ends it; nil if none does
	trigger  string
	serving  int64   // ticket of the request it was begun for, 0 if for none
	config   *config // the log's settings when it began
	lineage  int64   // of the view it works on; lineageNone: it has none yet
	fresh    bool    // it waits for its first turn
	granted  int64   // bytes of memory
	progress clean.PassProgress
	began    time.Time // when it had its first turn
}

// lineageNone is no lineage of a log.
const lineageNone = -1

// running tells whether a pass runs, or was cancelled and has not ended yet. It needs Cleaner.mu.
func (s *cleanerState) running() bool { return s.cancel != nil }

// quarantine keeps a log that failed from being tried again and again: each try may read the whole
// log. It is not kept over a restart, which may have cured the cause. The zero value holds nothing.
type quarantine struct {
	failures int       // in a row
	until    time.Time // when the log may be tried again
	config   *config   // the log's settings when it failed: others end the quarantine
}

// The back-off of a quarantine: a minute, doubled with each failure, at most an hour.
const (
	quarantineFirst   = time.Minute
	quarantineLongest = time.Hour
)

// after returns the quarantine that one more failure makes of q: 1, 2, 4 ... 32 minutes, then an
// hour. Kafka's lasts until the broker restarts (I7).
func (q quarantine) after(now time.Time, config *config) quarantine {
	wait := quarantineLongest
	if q.failures < 6 {
		wait = quarantineFirst << q.failures
	}
	return quarantine{failures: q.failures + 1, until: now.Add(wait), config: config}
}

// holds tells whether the log must wait still. Settings are compared by pointer: a Log makes a new
// config for each change.
func (q quarantine) holds(now time.Time, config *config) bool {
	return q.failures > 0 && q.config == config && now.Before(q.until)
}
