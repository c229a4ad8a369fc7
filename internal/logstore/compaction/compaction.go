package compaction

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Compaction is the cleaner's view of one log, and the only interface through which the cleaner
// uses a log. It reports the log's sections, runs a pass, estimates the garbage, and builds key
// sidecars. Package cleaner decides when to call the methods of Compaction.
//
// A log has the same Compaction for its whole life, so a pointer to the Compaction identifies the
// log. A topic that is deleted and created again has a new log with another Compaction. All methods
// may be called concurrently. Once the log is closed, the methods fail with segmentlist.ErrClosed
// or do nothing. At most one pass may run at a time.
type Compaction struct {
	env Env

	// Progress is the cleaning progress of the log.
	Progress progress.Progress
	// Dead manages the log's .dead files.
	Dead DeadFiles
	// pass describes the running pass; nil while no pass has replaced segments.
	pass atomic.Pointer[runningPass]
	// Rewriting is held while a pass or a repair rewrites segments: both write files with the suffix
	// .cleaned.
	Rewriting sync.Mutex
	Repairs   parallel.Tasks // ended before the log closes
	// Sidecars manages the log's key sidecars.
	Sidecars sidecars.Set
	// quarantined is true while the cleaner skips the log because a pass failed. Only the metrics
	// use it.
	quarantined atomic.Bool
}

// Init connects the Compaction to its log. It is called once, before the log is used. maintain and
// mu are locks of the log.
func (c *Compaction) Init(env Env, source sidecars.Source, maintain, mu sync.Locker) {
	c.env = env
	c.Sidecars = sidecars.New(source, env.FS, env.Dir, env.Logger.With("partition", env.ID),
		maintain, mu)
	c.Progress.Init(progress.Env{ID: env.ID, Logger: env.Logger, List: env.List, Offsets: env.Offsets,
		Settings: env.Settings, Save: env.Save, Record: env.Record})
	c.Dead = DeadFiles{ID: env.ID, FS: env.FS, Dir: env.Dir, Logger: env.Logger, Keep: env.Keep}
}

// Env returns the functions and values of the log that the Compaction uses.
func (c *Compaction) Env() *Env { return &c.env }

// ID returns the partition.
func (c *Compaction) ID() checkpoint.PartitionID { return c.env.ID }

// TopicID returns the id of the topic.
func (c *Compaction) TopicID() datadir.TopicID { return c.env.TopicID() }

// Settings returns the settings in effect. The result is immutable: a change of the settings
// replaces the pointer. If two calls return the same pointer, the settings have not changed in
// between.
func (c *Compaction) Settings() *topicconfig.Settings { return c.env.Settings() }

// Truncations returns the number of truncations since the log was opened. A result that was
// computed when the number was lower may no longer apply to the log.
func (c *Compaction) Truncations() int64 { return c.env.Truncations() }

// Closed reports whether the log is closed.
func (c *Compaction) Closed() bool { return c.env.List.Load() == nil }

// Stopped reports whether a running pass must stop, because the log is closed or its disk failed.
func (c *Compaction) Stopped() bool { return c.Closed() || c.env.Fault() != nil }

// Sections returns the log's current sections; ok is false if the log is closed. It changes
// nothing, acquires no lock and reads no file.
func (c *Compaction) Sections(now time.Time) (s Sections, ok bool) {
	truncations := c.Truncations() // loaded before the segment list, for the same reason as in View
	list, limits := c.limits()
	if list == nil {
		return Sections{}, false
	}
	defer list.Release()
	s, cleanable := divide(list.Handles, limits, c.Settings(), now)
	if pass := c.pass.Load(); pass != nil {
		s.during(pass, cleanable)
	}
	s.Truncations, s.TombstonesDue = truncations, c.Progress.TombstonesDue()
	return s, true
}

// Roll rolls the active segment if it contains records, because only then may a pass clean these
// records. It returns the log end.
func (c *Compaction) Roll() (end int64, err error) { return c.env.Roll() }

// Quarantined reports whether the cleaner skips the log because a pass failed.
func (c *Compaction) Quarantined() bool { return c.quarantined.Load() }

// SetQuarantined sets whether the cleaner skips the log because a pass failed. Only the metrics use
// this value.
func (c *Compaction) SetQuarantined(quarantined bool) { c.quarantined.Store(quarantined) }

// BuildOptions limits the resources that BuildSidecar uses.
type BuildOptions struct {
	Slot sidecars.Slot
	// Throttle is called before each read or write of n bytes, and may wait. It may be nil.
	Throttle func(ctx context.Context, n int) error
}

// BuildSidecar builds one missing key sidecar, or deletes a sidecar that costs more than it saves.
// It reports whether the caller should call it again at once. It logs errors; a later call retries
// the segment.
func (c *Compaction) BuildSidecar(ctx context.Context, now time.Time, b BuildOptions) (more bool) {
	return c.Sidecars.BuildNext(ctx, now, sidecars.Options{
		Options: keys.Options{MemoryBytes: sidecars.MemoryBytes, Throttle: b.Throttle},
		Scanned: b.Throttle, Background: true, Slot: b.Slot,
	})
}

// SidecarBytes contains the numbers of bytes read and written since the log was opened, for
// estimates and for sidecars that are built in the background.
type SidecarBytes struct {
	Read, Written int64 // bytes of sidecars and spools
	Scanned       int64 // bytes of data files
}

// SidecarBytes returns the numbers of bytes since the log was opened. They exclude sidecars that a
// pass builds, because the pass counts these bytes itself.
func (c *Compaction) SidecarBytes() SidecarBytes {
	return SidecarBytes{Read: c.Sidecars.ReadBytes.Load(), Written: c.Sidecars.WrittenBytes.Load(),
		Scanned: c.Sidecars.ScannedBytes.Load()}
}
