package cleaner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// Options of a Cleaner.
type Options struct {
	// Workers is the number of worker slots: passes or hash slices that run at once. Default 1; -1
	// for none.
	Workers     int
	MemoryBytes int64         // of all passes together; default 128 MiB
	IOBytesRate int64         // bytes read and written a second, of all passes; 0: no limit
	Interval    time.Duration // between two looks at the logs; default and maximum 1 s
	Logger      *slog.Logger  // default slog.Default()
}

// abortWithin bounds how long a pass continues after its log was closed: the scheduler detects the
// close and cancels the pass, so no Interval may be longer.
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

// Cleaner compacts the logs of a store in the background: the dirtiest first, one pass at a time
// over each, and quarantines the logs whose pass fails.
type Cleaner struct {
	store *logstore.Store
	limit ioLimit
	slots workerSlots
	// sidecarSlot is held while a sidecar or an estimate is computed. Only one is computed at a
	// time, because each takes much memory.
	sidecarSlot chan struct{}

	stop context.CancelFunc
	ctx  context.Context // ends with stop; parent of the passes' contexts
	wake chan struct{}   // a pass ended, or the options changed; buffered 1
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		closed       bool
		opts         Options
		logs         map[logstore.PartitionID]*logState
		passes       int   // started and not ended
		waiting      int   // number of passes that wait for their first worker slot
		grantedBytes int64 // memory, of all passes
		sidecarBytes int64 // memory that the holder of sidecarSlot uses
		background   backgroundJob
	}
}

// New starts a cleaner on a store. Close stops it within a second.
func New(store *logstore.Store, opts Options) *Cleaner {
	c := newIdle(store, opts)
	c.done.Go(c.run)
	c.done.Go(c.runBackground)
	return c
}

// newIdle returns a cleaner without goroutines.
func newIdle(store *logstore.Store, opts Options) *Cleaner {
	c := &Cleaner{store: store, wake: make(chan struct{}, 1), sidecarSlot: make(chan struct{}, 1)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.logs = map[logstore.PartitionID]*logState{}
	c.Configure(opts)
	return c
}

// Configure applies a new budget. Running passes continue at the new rate and with the new number
// of worker slots, unless no slots are left, or the passes hold more memory than the new budget
// allows. In these cases the passes are aborted, and started again within the new budget.
// Quarantines end, since the old budget may have been the reason for the failure.
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

// options returns the options of the last Configure, with defaults.
func (c *Cleaner) options() Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.opts
}

// awake wakes the scheduler. It never blocks, so it may be called with Cleaner.mu held.
func (c *Cleaner) awake() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Close stops the cleaner. Passes end within one batch; the rewrites that they have committed stay.
func (c *Cleaner) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.stop()
	c.done.Wait()
}

// compactions returns the compactions of all logs.
func (c *Cleaner) compactions() []*logstore.Compaction {
	var all []*logstore.Compaction
	for _, log := range c.store.Logs() {
		all = append(all, log.Compaction())
	}
	return all
}
