package logstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// CleanerOptions of a Cleaner.
type CleanerOptions struct {
	Workers     int           // passes at once; default 1; 0 from the user means none: pass -1
	MemoryBytes int64         // for all workers together; default 128 MiB
	IOBytesRate int64         // reads plus writes a second, of all workers; 0: no limit
	Interval    time.Duration // how often logs are looked at, at most 1 s; default 1 s
	Logger      *slog.Logger  // default slog.Default()
}

// abortWithin bounds how long a pass goes on over a log that was closed: it is a look of the scheduler that finds this out
// and cancels the pass, so no Interval may be longer.
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

// passMemoryBytes is the share of one pass. Equal shares, so that a large log cannot take what others need; not of what is
// free at the moment, or the same log would fail or not by what runs beside it.
func (o CleanerOptions) passMemoryBytes() int64 { return o.MemoryBytes / int64(max(1, o.Workers)) }

// Cleaner cleans the logs of a store in the background: it picks the dirtiest, one worker a log, and quarantines what fails.
//
// It has one goroutine that looks at the logs (cleaner_schedule.go), one that makes key sidecars (cleaner_sidecars.go), and one for
// each pass that runs (cleaner_pass.go).
// Cleaner.mu guards all of its state; it is taken for moments only, and never with a lock of a Log or the Store held.
type Cleaner struct {
	store   *Store
	limiter *rate.Limiter

	stop context.CancelFunc
	ctx  context.Context // ends with stop: the passes' parent
	wake chan struct{}   // a pass ended, or the options changed; buffered 1
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		closed    bool
		opts      CleanerOptions
		logs      map[PartitionID]*cleanerState
		busy      int // workers; busy <= opts.Workers but for a moment after Configure
		throttled time.Duration
	}
}

// NewCleaner starts a cleaner on a store; Close stops it, within a second, and joins its goroutines.
func NewCleaner(store *Store, opts CleanerOptions) *Cleaner {
	c := &Cleaner{store: store, limiter: rate.NewLimiter(rate.Inf, 0), wake: make(chan struct{}, 1)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.logs = map[PartitionID]*cleanerState{}
	c.Configure(opts)
	c.done.Go(c.run)
	c.done.Go(c.tendSidecars)
	return c
}

// Configure puts a new budget into effect for the next pass, and the I/O rate at once. What failed is tried again at once: the
// old budget may have been the reason.
func (c *Cleaner) Configure(opts CleanerOptions) {
	opts = opts.withDefaults()
	c.mu.Lock()
	c.mu.opts = opts
	for _, state := range c.mu.logs {
		state.quarantine = quarantine{}
	}
	c.mu.Unlock()
	if opts.IOBytesRate > 0 {
		// The burst first: a limit with a burst of 0 would have spend take 0 bytes at a time, without end.
		c.limiter.SetBurst(int(max(minBurstBytes, opts.IOBytesRate/10)))
		c.limiter.SetLimit(rate.Limit(opts.IOBytesRate))
	} else {
		c.limiter.SetLimit(rate.Inf)
	}
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

// minBurstBytes is the least the token bucket holds, however low the rate.
const minBurstBytes = 64 << 10

// spend takes n bytes out of the token bucket of all workers (I40), and waits for them. No lock is held: Kafka sleeps inside
// a lock that its threads share. n may exceed the burst, which WaitN refuses, so it is taken in parts. It fails only when
// ctx ends.
func (c *Cleaner) spend(ctx context.Context, n int) error {
	if c.limiter.Limit() == rate.Inf {
		return nil
	}
	began := time.Now()
	for n > 0 {
		part := min(n, c.limiter.Burst())
		if err := c.limiter.WaitN(ctx, part); err == nil {
			n -= part
		} else if ctx.Err() != nil {
			return fmt.Errorf("wait for the I/O budget: %w", ctx.Err())
		} // else Configure made the burst smaller than the part: once more
	}
	c.mu.Lock()
	c.mu.throttled += time.Since(began)
	c.mu.Unlock()
	return nil
}

// memoryBytes is what the running passes hold, as of their last reports, and what all passes may hold together.
func (c *Cleaner) memoryBytes() (held, limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.mu.logs {
		if state.running() {
			held += state.progress.MemoryBytes
		}
	}
	return held, c.mu.opts.MemoryBytes
}

// cleanerState is what the cleaner knows of one log.
//
// Its life: made by the scheduler when it first sees the log; running from startLocked to finish; dropped by forgetLocked
// when the log is gone or not compacted any more, but never while a pass runs. Cleaner.mu guards all fields but log, which
// never changes.
type cleanerState struct {
	log    *Log               // a topic that is deleted and made again has another Log under the same id, and a state of its own
	seen   time.Time          // when the cleaner first saw the log
	due    time.Time          // since when a pass is due; zero if none is
	cancel context.CancelFunc // ends the pass that runs; nil if none does

	quarantine quarantine
	progress   clean.Progress // of the running pass, or zero
	began      time.Time      // when it began
	counters   counters
}

// running tells whether a pass runs, or was cancelled and has not ended yet. It needs Cleaner.mu.
func (s *cleanerState) running() bool { return s.cancel != nil }

// quarantine keeps a log that failed from being tried again and again: each try may read the whole log. It is not kept over a
// restart, which may have cured the cause. The zero value holds nothing.
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

// after returns the quarantine that one more failure makes of q: 1, 2, 4 ... 32 minutes, then an hour. Kafka's lasts until
// the broker restarts (I7).
func (q quarantine) after(now time.Time, config *config) quarantine {
	wait := quarantineLongest
	if q.failures < 6 {
		wait = quarantineFirst << q.failures
	}
	return quarantine{failures: q.failures + 1, until: now.Add(wait), config: config}
}

// holds tells whether the log must wait still. Settings are compared by pointer: a Log makes a new config for each change.
func (q quarantine) holds(now time.Time, config *config) bool {
	return q.failures > 0 && q.config == config && now.Before(q.until)
}
