package cleaner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/logstore/compaction"
)

// Options are the options of a Cleaner.
type Options struct {
	// Workers is the number of worker slots, and therefore of passes and hash slices that run at
	// once. The default is 1. A negative number means no worker slots, and therefore no passes.
	Workers     int
	MemoryBytes int64         // memory budget of the whole cleaner; default 128 MiB
	IOBytesRate int64         // bytes read and written per second by all passes; 0: no limit
	Interval    time.Duration // interval between two scans of the logs; default and maximum 1 s
	Logger      *slog.Logger  // default slog.Default()
	// History stores the passes. The default is a history in memory. Configure ignores this field.
	History *passlog.Log
}

// abortWithin is the maximum time that a pass continues after its log was closed. The scheduler
// detects the close when it scans the logs and cancels the pass, so Interval must not be longer.
const abortWithin = time.Second

func (o Options) withDefaults() Options {
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

// Cleaner compacts a store's logs in the background. It compacts the dirtiest log first, and runs
// at most one pass at a time over a log. It quarantines a log whose pass fails.
type Cleaner struct {
	store   *logstore.Store
	history *passlog.Log
	limit   ioLimit
	slots   workerSlots
	// sidecarSlot is held while a key sidecar or an estimate is computed. Only one sidecar or
	// estimate is computed at a time, because each needs much memory.
	sidecarSlot chan struct{}

	stop context.CancelFunc
	ctx  context.Context // canceled by stop; parent of the passes' contexts
	wake chan struct{}   // signal that a pass ended or the options changed; buffered 1
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		closed       bool
		opts         Options
		logs         map[logstore.PartitionID]*logState
		passes       int   // number of passes that have started but not ended
		waiting      int   // number of passes that wait for their first worker slot
		grantedBytes int64 // memory granted to all passes
		sidecarBytes int64 // memory that the holder of sidecarSlot may use
		background   backgroundJob
		pressure     Pressure // argument of SetPressure
	}
}

// New starts a cleaner on a store. Close stops it within a second.
func New(store *logstore.Store, opts Options) *Cleaner {
	c := newIdle(store, opts)
	c.done.Go(c.run)
	c.done.Go(c.runBackground)
	return c
}

// newIdle returns a cleaner whose goroutines are not started.
func newIdle(store *logstore.Store, opts Options) *Cleaner {
	c := &Cleaner{store: store, history: opts.History, wake: make(chan struct{}, 1),
		sidecarSlot: make(chan struct{}, 1)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.logs = map[logstore.PartitionID]*logState{}
	if c.history == nil {
		c.history = passlog.Open(passlog.Options{})
	}
	c.Configure(opts)
	return c
}

// Configure applies new options. Running passes continue at the new I/O rate and with the new
// number of worker slots. They are aborted, and later started again, if no worker slot is left or
// if they use more memory than the new budget allows. All quarantines end, because the old budget
// may have caused the failures.
func (c *Cleaner) Configure(opts Options) {
	opts = opts.withDefaults()
	c.mu.Lock()
	c.mu.opts = opts
	for _, state := range c.mu.logs {
		state.quarantine = quarantine{}
		if state.running() &&
			(opts.Workers == 0 || c.mu.grantedBytes > opts.passesMemoryBytes()) {
			state.cancel()
		}
	}
	c.mu.Unlock()
	c.slots.resize(opts.Workers)
	c.limit.set(opts.IOBytesRate)
	c.awake()
}

// options returns the options of the last Configure call, with defaults.
func (c *Cleaner) options() Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.opts
}

// awake wakes the scheduler. It never blocks, so a caller may hold Cleaner.mu.
func (c *Cleaner) awake() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Close stops the cleaner. A pass ends after its current batch; rewrites that it has already
// committed remain.
func (c *Cleaner) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.stop()
	c.done.Wait()
}

// compactions returns the compactions of all logs.
func (c *Cleaner) compactions() []*compaction.Compaction {
	var all []*compaction.Compaction
	for _, log := range c.store.Logs() {
		all = append(all, log.Compaction())
	}
	return all
}
