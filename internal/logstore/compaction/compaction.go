package compaction

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Compaction is the cleaner's view of one log, and the only interface through which the cleaner
// uses a log. It reports the log's sections, runs a pass, estimates the garbage, and builds key
// sidecars. Package cleaner decides when to call these methods.
//
// A log has the same Compaction for its whole life, so a pointer to the Compaction identifies the
// log. A topic that is deleted and created again has a new log with another Compaction. All methods
// may be called concurrently. Once the log is closed, they fail with segmentlist.ErrClosed or do
// nothing. At most one pass may run at a time.
type Compaction struct {
	env Env

	// firstDirty is the first dirty offset: every record below it was cleaned.
	firstDirty atomic.Int64
	// horizon is the time (Unix milliseconds) from which the first tombstone below firstDirty may
	// be removed, or TombstonesNone, TombstonesAfterAppend or TombstonesUnknown.
	horizon atomic.Int64
	// tombstoneClean is clean.Stats.TombstoneCleanOffset of the last pass; 0 if that value is not
	// known. See TombstoneClean.
	tombstoneClean atomic.Int64
	Progress       cleaningProgress
	// pass describes the pass that runs; nil while no pass has replaced segments.
	pass atomic.Pointer[runningPass]
	// Sidecars are the key sidecars of the log.
	Sidecars sidecars.Set
	// quarantined is set while the cleaner skips the log because a pass failed. Only the metrics
	// use it.
	quarantined atomic.Bool
}

// Special values of Sections.TombstonesDue, which otherwise is a time.
const (
	TombstonesUnknown = 0 // no pass has run, or its result was lost
	// the last pass left no tombstone that a later pass can remove
	TombstonesNone = math.MaxInt64
	// the last pass left no tombstone that a later pass can remove, except for the last record of
	// the log, which a pass can remove after more records are appended
	TombstonesAfterAppend = TombstonesNone - 1
)

// Init connects the Compaction to its log. It is called once, before the log is used. maintain and
// mu are the locks of the log.
func (c *Compaction) Init(env Env, source sidecars.Source, maintain, mu sync.Locker) {
	c.env = env
	c.Sidecars = sidecars.New(source, env.FS, env.Dir, env.Logger.With("partition", env.ID),
		maintain, mu)
	c.Progress.restore(nil, 0)
}

// Env returns what the Compaction uses of its log.
func (c *Compaction) Env() *Env { return &c.env }

// ID returns the partition.
func (c *Compaction) ID() checkpoint.PartitionID { return c.env.ID }

// TopicID returns the id of the topic.
func (c *Compaction) TopicID() datadir.TopicID { return c.env.TopicID() }

// Settings returns the settings in effect. The result is immutable: a change of the settings
// replaces the pointer. So the settings have not changed between two calls that return the same
// pointer.
func (c *Compaction) Settings() *topicconfig.Settings { return c.env.Settings() }

// Truncations returns the number of truncations of the log since it was opened. A result that was
// computed when the number was smaller may not apply to the log as it is now.
func (c *Compaction) Truncations() int64 { return c.env.Truncations() }

// Closed reports whether the log is closed.
func (c *Compaction) Closed() bool { return c.env.List.Load() == nil }

// Stopped reports whether a running pass must stop, because the log is closed or its disk failed.
func (c *Compaction) Stopped() bool { return c.Closed() || c.env.Fault() != nil }

// Sections returns the sections of the log as it is now; the result ok is false if the log is
// closed. It changes nothing, acquires no lock and reads no file.
func (c *Compaction) Sections(now time.Time) (s Sections, ok bool) {
	truncations := c.Truncations() // loaded before the segment list for the same reason as in view
	list, limits := c.limits()
	if list == nil {
		return Sections{}, false
	}
	defer list.Release()
	s, cleanable := divide(list.Handles, limits, c.Settings(), now)
	if pass := c.pass.Load(); pass != nil {
		s.during(pass, cleanable)
	}
	s.Truncations, s.TombstonesDue = truncations, c.tombstonesDue()
	return s, true
}

// Roll rolls the active segment if it contains records, so that a pass may clean these records. It
// returns the log end.
func (c *Compaction) Roll() (end int64, err error) { return c.env.Roll() }

// Quarantined reports whether the cleaner skips the log because a pass failed.
func (c *Compaction) Quarantined() bool { return c.quarantined.Load() }

// SetQuarantined sets whether the cleaner skips the log because a pass failed. Only the metrics use
// this value.
func (c *Compaction) SetQuarantined(quarantined bool) { c.quarantined.Store(quarantined) }

// FirstDirty returns the first dirty offset.
func (c *Compaction) FirstDirty() int64 { return c.firstDirty.Load() }

// ResetFirstDirty corrects a first dirty offset that is outside the log: it becomes the log start,
// and is saved even if no pass follows (cleaner invariant I3).
func (c *Compaction) ResetFirstDirty() {
	was := c.firstDirty.Load()
	within := firstDirtyWithin(was, c.env.Offsets.LogStart(), c.env.Offsets.LogEnd())
	if within == was {
		return
	}
	c.env.Logger.Info("first dirty offset reset", "partition", c.env.ID, "from", was, "to",
		within)
	if err := c.SetFirstDirty(within); err != nil {
		c.env.Logger.Warn("failed to save the first dirty offset", "partition", c.env.ID,
			"error", err)
	}
}

// SetFirstDirty sets the first dirty offset and writes cleaner-offset-checkpoint. It returns the
// error of the write. The offset in memory changes even if the write fails. After a crash, a pass
// then cleans the same section once more, which changes nothing (cleaner invariant I38).
func (c *Compaction) SetFirstDirty(offset int64) error {
	c.firstDirty.Store(offset)
	return c.env.Save()
}

// Basis is the state of the log that the result of a pass is based on.
type Basis struct {
	Truncations int64 // number of truncations when the pass took its view of the log
	logStart    int64 // the pass has removed the deleted records below this offset
}

// SetCleaned stores the result of a pass: the first dirty offset, the tombstone-clean offset, and
// the time from which the first tombstone may be removed. It stores that time before the first
// dirty offset, for the same reason as the checkpoints. If the log was truncated since
// the pass took its view, SetCleaned fails with segmentlist.ErrChanged and stores nothing.
func (c *Compaction) SetCleaned(basis Basis, stats clean.Stats) error {
	ms := int64(TombstonesNone)
	switch {
	case !stats.NextPass.IsZero(): // that pass finds out again whether the last record may go
		ms = stats.NextPass.UnixMilli()
	case stats.KeptLastRecord:
		ms = TombstonesAfterAppend
	}
	err := c.env.Record(basis.Truncations, func(first int64) {
		if start := c.env.Offsets.LogStart(); start > basis.logStart && first < start {
			ms = min(ms, time.Now().Add(erasureDelay).UnixMilli()) // deleted during the pass
		}
		c.Progress.setWaitsAt(stats.AwaitsReplicasAt)
		c.horizon.Store(ms)
		c.tombstoneClean.Store(stats.TombstoneCleanOffset)
		c.firstDirty.Store(stats.CleanedTo)
	})
	if err != nil {
		return err
	}
	return c.env.Save()
}

// erasureDelay is the time between DeleteRecords and the pass that removes the deleted records of
// segments with other records. So a client that deletes records all the time causes at most one
// pass in that time.
const erasureDelay = time.Minute

// planErasure plans a pass if the first segment contains records below the log start, which
// DeleteRecords has deleted. The pass removes them also if the log is idle.
func (c *Compaction) planErasure() {
	list := c.env.List.Acquire()
	if list == nil {
		return
	}
	first := list.Handles[0].Base()
	list.Release()
	if !c.Settings().Compact || first >= c.env.Offsets.LogStart() {
		return
	}
	position := time.Now().Add(erasureDelay).UnixMilli()
	for was := c.horizon.Load(); was > position || was == TombstonesUnknown; was = c.horizon.Load() {
		if c.horizon.CompareAndSwap(was, position) {
			return
		}
	}
}

// SetReplicasTombstoneClean sets the replicated cleaning progress: the smallest TombstoneClean of
// all replicas of the partition, in sync or not. The offset is math.MaxInt64 if this log is the
// only replica. Until the first call the log is treated as the only replica.
//
// Passes keep every tombstone and transaction marker at or above the offset. They keep each
// tombstone and marker below the offset until one retention time after the first call with an
// offset above it. Without this rule, this replica could remove a tombstone while another replica
// still holds an older record of the same key. A consumer would read that record again after the
// other replica becomes the leader, or when the consumer continues at the other replica (cleaner
// invariants X1 and X3).
//
// The offset may be lower than before when a replica was added, or while a new leader does not know
// the progress of all replicas.
func (c *Compaction) SetReplicasTombstoneClean(offset int64) {
	// Every fetch of every follower calls this method, so the offset is mostly unchanged.
	if c.Progress.replicated.Load() != offset {
		c.Progress.advance(offset, c.TombstoneClean(), time.Now(), c.Settings().TombstoneRetention)
	}
}

// ReplicasTombstoneClean returns the last argument of SetReplicasTombstoneClean, math.MaxInt64
// before the first call.
func (c *Compaction) ReplicasTombstoneClean() int64 {
	if offset := c.Progress.replicated.Load(); offset != progressUnknown {
		return offset
	}
	return onlyReplica
}

// ReportedReplicasTombstoneClean returns ReplicasTombstoneClean for metrics and reports. If this
// log is the only replica, it returns the log's own tombstone-clean offset.
func (c *Compaction) ReportedReplicasTombstoneClean() int64 {
	if offset := c.ReplicasTombstoneClean(); offset != onlyReplica {
		return offset
	}
	return c.TombstoneClean()
}

// TombstoneClean returns the tombstone-clean offset. Every tombstone of this replica below this
// offset is removable, because the log contains no older record of the tombstone's key, dead or
// not. The offset is at most the first dirty offset. Mostly it is lower, because a pass may keep
// dead records to save I/O. It is at least the log start, because no record below the log start can
// be read.
func (c *Compaction) TombstoneClean() int64 {
	return max(c.env.Offsets.LogStart(), min(c.tombstoneClean.Load(), c.firstDirty.Load()))
}

// tombstonesDue returns the time from which the log needs a pass for its tombstones; see
// Sections.TombstonesDue.
func (c *Compaction) tombstonesDue() int64 {
	return c.Progress.due(c.horizon.Load(), c.Settings().TombstoneRetention)
}

// LogStartRaised updates the state after DeleteRecords has raised the log start: the first dirty
// offset must be within the log (cleaner invariant I3), and a pass is planned that removes the
// deleted records of the first segment.
func (c *Compaction) LogStartRaised() {
	was := c.firstDirty.Load()
	within := firstDirtyWithin(was, c.env.Offsets.LogStart(), c.env.Offsets.LogEnd())
	if within != was {
		c.firstDirty.Store(within)
	}
	c.planErasure()
}

// AddTo stores in a checkpoint state what the checkpoints contain about the compaction of the log.
func (c *Compaction) AddTo(s *checkpoint.State) {
	s.FirstDirty = c.firstDirty.Load()
	s.Horizon = c.tombstonesDue()
	s.TombstoneClean = c.tombstoneClean.Load()
	s.Progress = c.Progress.saved(c.TombstoneClean())
}

// Truncated updates the state after a truncation of the log to the offset end. The argument base is
// the base offset of the active segment after the truncation. The caller holds Log.mu.
func (c *Compaction) Truncated(base, end int64) {
	c.firstDirty.Store(min(c.firstDirty.Load(), base))
	c.tombstoneClean.Store(min(c.tombstoneClean.Load(), base))
	c.Progress.truncate(end)
}

// Emptied updates the state after a truncation that left the log empty at an offset. The caller
// holds Log.mu.
func (c *Compaction) Emptied(offset int64) {
	c.firstDirty.Store(offset)
	c.tombstoneClean.Store(offset)
	c.Progress.truncate(0)
}

// Restore sets the state of a log that was opened and that covers the offsets [start, end).
func (c *Compaction) Restore(from checkpoint.State, start, end int64) {
	c.firstDirty.Store(from.FirstDirty)
	c.tombstoneClean.Store(from.TombstoneClean)
	c.Progress.restore(from.Progress, end)
	c.horizon.Store(from.Horizon)
	if c.TombstoneClean() == start && from.FirstDirty > start {
		// It is not known which tombstones the clean section contains, so the log needs a pass that
		// reads them, even if nothing is appended to the log.
		c.horizon.Store(TombstonesUnknown)
	}
}

// BuildOptions limits the resources that BuildSidecar uses.
type BuildOptions struct {
	Slot sidecars.Slot
	// Throttle is called before each read or write of n bytes, and may wait. It may be nil.
	Throttle func(ctx context.Context, n int) error
}

// BuildSidecar builds one missing key sidecar, or deletes one that costs more than it saves. It
// reports whether the caller should call it again at once. It logs errors; a later call retries the
// segment.
func (c *Compaction) BuildSidecar(ctx context.Context, now time.Time, b BuildOptions) (more bool) {
	return c.Sidecars.BuildNext(ctx, now, sidecars.Options{
		Options: keys.Options{MemoryBytes: sidecars.MemoryBytes, Throttle: b.Throttle},
		Scanned: b.Throttle, Background: true, Slot: b.Slot,
	})
}

// SidecarBytes counts the bytes read and written since the log was opened, for sidecars that are
// built in the background and for estimates.
type SidecarBytes struct {
	Read, Written int64 // of sidecars and spools
	Scanned       int64 // of data files
}

// SidecarBytes returns the number of bytes since the log was opened. It excludes the sidecars that
// a pass builds, because the pass counts their bytes itself.
func (c *Compaction) SidecarBytes() SidecarBytes {
	return SidecarBytes{Read: c.Sidecars.ReadBytes.Load(), Written: c.Sidecars.WrittenBytes.Load(),
		Scanned: c.Sidecars.ScannedBytes.Load()}
}
