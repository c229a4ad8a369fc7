package progress

import (
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Special values of Progress.TombstonesDue, which otherwise is a time.
const (
	TombstonesUnknown = 0 // no pass has run, or its result was lost
	// TombstonesNone means that the last pass left no tombstone that a later pass can remove.
	TombstonesNone = math.MaxInt64
	// TombstonesAfterAppend means that the last pass left only one tombstone that a later pass can
	// remove: the last record of the log. A pass can remove it after more records are appended.
	TombstonesAfterAppend = TombstonesNone - 1
)

// Progress is the cleaning progress of a log, on this broker and on the partition's other replicas.
// All methods may be called concurrently.
type Progress struct {
	log Env
	// firstDirty is the first dirty offset: every record below it was cleaned.
	firstDirty atomic.Int64
	// horizon is the time (Unix milliseconds) from which the first tombstone below firstDirty may
	// be removed, or TombstonesNone, TombstonesAfterAppend or TombstonesUnknown.
	horizon atomic.Int64
	// tombstoneClean is the last pass's clean.Stats.TombstoneCleanOffset; 0 if that value is not
	// known. See TombstoneClean.
	tombstoneClean atomic.Int64
	replicas       cleaningProgress
}

// Env contains the functions and values of a log that its Progress uses.
type Env struct {
	ID       checkpoint.PartitionID
	Logger   *slog.Logger
	List     *segmentlist.Current
	Offsets  *offsets.Offsets
	Settings func() *topicconfig.Settings
	Save     func() error
	Record   func(truncations int64, store func(first int64)) error
}

// Init connects the Progress to its log. It is called once, before the log is used.
func (p *Progress) Init(log Env) {
	p.log = log
	p.replicas.restore(nil, 0)
}

// Basis is the state of the log on which the result of a pass is based.
type Basis struct {
	Truncations int64 // number of truncations when the pass took its view of the log
	LogStart    int64 // offset below which the pass has removed the deleted records
}

// erasureDelay is the time between DeleteRecords and the pass that removes the deleted records from
// segments that also contain other records. A client that deletes records all the time therefore
// causes at most one pass per erasureDelay.
const erasureDelay = time.Minute

// FirstDirty returns the first dirty offset.
func (p *Progress) FirstDirty() int64 { return p.firstDirty.Load() }

// ResetFirstDirty corrects a first dirty offset that is outside the log: it sets the offset to the
// log start, and saves it even if no pass follows (cleaner invariant I3).
func (p *Progress) ResetFirstDirty() {
	was := p.firstDirty.Load()
	within := firstDirtyWithin(was, p.log.Offsets.LogStart(), p.log.Offsets.LogEnd())
	if within == was {
		return
	}
	p.log.Logger.Info("first dirty offset reset", "partition", p.log.ID, "from", was, "to",
		within)
	if err := p.SetFirstDirty(within); err != nil {
		p.log.Logger.Warn("failed to save the first dirty offset", "partition", p.log.ID,
			"error", err)
	}
}

// SetFirstDirty sets the first dirty offset and writes cleaner-offset-checkpoint. If the write
// fails, it returns the error, but the offset in memory has changed. After a crash, a pass then
// cleans the same section once more, which changes nothing (cleaner invariant I38).
func (p *Progress) SetFirstDirty(offset int64) error {
	p.firstDirty.Store(offset)
	return p.log.Save()
}

// SetCleaned stores the result of a pass: the first dirty offset, the tombstone-clean offset, and
// the time from which the first tombstone may be removed. It stores this time before the first
// dirty offset, for the same reason as the checkpoints. If the log was truncated since the pass
// took its view, SetCleaned fails with segmentlist.ErrChanged and stores nothing.
func (p *Progress) SetCleaned(basis Basis, stats clean.Stats) error {
	ms := int64(TombstonesNone)
	switch {
	case !stats.NextPass.IsZero(): // that pass determines again whether the last record may be removed
		ms = stats.NextPass.UnixMilli()
	case stats.KeptLastRecord:
		ms = TombstonesAfterAppend
	}
	err := p.log.Record(basis.Truncations, func(first int64) {
		if start := p.log.Offsets.LogStart(); start > basis.LogStart && first < start {
			ms = min(ms, time.Now().Add(erasureDelay).UnixMilli()) // deleted during the pass
		}
		p.replicas.setWaitsAt(stats.AwaitsReplicasAt)
		p.horizon.Store(ms)
		p.tombstoneClean.Store(stats.TombstoneCleanOffset)
		p.firstDirty.Store(stats.CleanedTo)
	})
	if err != nil {
		return err
	}
	return p.log.Save()
}

// planErasure plans a pass if the first segment contains records below the log start, which
// DeleteRecords has deleted. The pass removes these records even if the log is idle.
func (p *Progress) planErasure() {
	list := p.log.List.Acquire()
	if list == nil {
		return
	}
	first := list.Handles[0].Base()
	list.Release()
	if !p.log.Settings().Compact || first >= p.log.Offsets.LogStart() {
		return
	}
	position := time.Now().Add(erasureDelay).UnixMilli()
	for was := p.horizon.Load(); was > position || was == TombstonesUnknown; was = p.horizon.Load() {
		if p.horizon.CompareAndSwap(was, position) {
			return
		}
	}
}

// SetReplicasTombstoneClean sets the replicated cleaning progress: the smallest TombstoneClean of
// all replicas of the partition, in sync or not. offset is math.MaxInt64 if this log is the only
// replica. Until the first call the log is treated as the only replica.
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
func (p *Progress) SetReplicasTombstoneClean(offset int64) {
	// Every fetch of every follower calls this method, so the offset is usually unchanged.
	if p.replicas.replicated.Load() != offset {
		p.replicas.advance(offset, p.TombstoneClean(), time.Now(), p.log.Settings().TombstoneRetention)
	}
}

// ReplicasTombstoneClean returns the last argument of SetReplicasTombstoneClean, or math.MaxInt64
// before the first call.
func (p *Progress) ReplicasTombstoneClean() int64 {
	if offset := p.replicas.replicated.Load(); offset != progressUnknown {
		return offset
	}
	return onlyReplica
}

// ReportedReplicasTombstoneClean returns ReplicasTombstoneClean for metrics and reports. If this
// log is the only replica, it returns the log's own tombstone-clean offset.
func (p *Progress) ReportedReplicasTombstoneClean() int64 {
	if offset := p.ReplicasTombstoneClean(); offset != onlyReplica {
		return offset
	}
	return p.TombstoneClean()
}

// TombstoneClean returns the tombstone-clean offset. Every tombstone of this replica below this
// offset is removable, because the log contains no older record of the tombstone's key, dead or
// not. The offset is at most the first dirty offset. Usually it is lower, because a pass may keep
// dead records to save I/O. It is at least the log start, because records below the log start
// cannot be read.
func (p *Progress) TombstoneClean() int64 {
	return max(p.log.Offsets.LogStart(), min(p.tombstoneClean.Load(), p.firstDirty.Load()))
}

// TombstonesDue returns the time from which the log needs a pass for its tombstones; see
// Sections.TombstonesDue.
func (p *Progress) TombstonesDue() int64 {
	return p.replicas.due(p.horizon.Load(), p.log.Settings().TombstoneRetention)
}

// LogStartRaised updates the state after DeleteRecords has raised the log start. The first dirty
// offset must be within the log (cleaner invariant I3), and a pass is planned to remove the deleted
// records of the first segment.
func (p *Progress) LogStartRaised() {
	was := p.firstDirty.Load()
	within := firstDirtyWithin(was, p.log.Offsets.LogStart(), p.log.Offsets.LogEnd())
	if within != was {
		p.firstDirty.Store(within)
	}
	p.planErasure()
}

// AddTo stores the values that the checkpoints contain about the log's compaction in a checkpoint
// state.
func (p *Progress) AddTo(s *checkpoint.State) {
	s.FirstDirty = p.firstDirty.Load()
	s.Horizon = p.TombstonesDue()
	s.TombstoneClean = p.tombstoneClean.Load()
	s.Progress = p.replicas.saved(p.TombstoneClean())
}

// Truncated updates the state after a truncation of the log to the offset end. base is the base
// offset of the active segment after the truncation. The caller holds Log.mu.
func (p *Progress) Truncated(base, end int64) {
	p.firstDirty.Store(min(p.firstDirty.Load(), base))
	p.tombstoneClean.Store(min(p.tombstoneClean.Load(), base))
	p.replicas.truncate(end)
}

// Emptied updates the state after a truncation that left the log empty at the given offset. The
// caller holds Log.mu.
func (p *Progress) Emptied(offset int64) {
	p.firstDirty.Store(offset)
	p.tombstoneClean.Store(offset)
	p.replicas.truncate(0)
}

// Restore sets the state of an opened log that covers the offsets [start, end).
func (p *Progress) Restore(from checkpoint.State, start, end int64) {
	p.firstDirty.Store(from.FirstDirty)
	p.tombstoneClean.Store(from.TombstoneClean)
	p.replicas.restore(from.Progress, end)
	p.horizon.Store(from.Horizon)
	if p.TombstoneClean() == start && from.FirstDirty > start {
		// It is not known which tombstones the clean section contains. So the log needs a pass that
		// reads them, even if nothing is appended to the log.
		p.horizon.Store(TombstonesUnknown)
	}
}

// ForPass returns the steps of the replicated cleaning progress that a pass may use.
func (p *Progress) ForPass() clean.CleaningProgress { return p.replicas.ForPass() }

// FirstDirtyIn returns the first dirty offset within the log.
func (p *Progress) FirstDirtyIn(logStart, logEnd int64) int64 {
	return firstDirtyWithin(p.firstDirty.Load(), logStart, logEnd)
}

// firstDirtyWithin returns firstDirty, or the log start if firstDirty is outside the log (cleaner
// invariant I3).
func firstDirtyWithin(firstDirty, logStart, logEnd int64) int64 {
	if firstDirty < logStart || firstDirty > logEnd {
		return logStart
	}
	return firstDirty
}

// TombstoneClock is a group of tombstones and markers whose retention has begun.
type TombstoneClock struct {
	Count   int64
	SinceMs int64
	// Replicated is false while the group waits for other replicas. GoesFromMs is the time from
	// which a pass may remove the whole group. It is valid if Replicated is set.
	Replicated bool
	GoesFromMs int64
}

// Clocks returns the times from which the tombstones of a segment that ends at an offset may be
// removed.
func (p *Progress) Clocks(d *clean.DeadSummary, last int64,
	settings *topicconfig.Settings) []TombstoneClock {
	if len(d.Removable) == 0 {
		return nil
	}
	replicatedMs, ok := p.ForPass().Since(last)
	clocks := make([]TombstoneClock, len(d.Removable))
	for i, set := range d.Removable {
		clocks[i] = TombstoneClock{Count: int64(set.Count), SinceMs: set.SinceMs, Replicated: ok,
			GoesFromMs: max(set.SinceMs, replicatedMs) + settings.TombstoneRetention.Milliseconds()}
	}
	return clocks
}

// ClockOf returns the clock of a removable tombstone.
func (p *Progress) ClockOf(set clean.RemovableSet, b keys.Batch) *TombstoneClock {
	replicatedMs, ok := p.ForPass().Since(b.LastOffset)
	retention := p.log.Settings().TombstoneRetention.Milliseconds()
	return &TombstoneClock{Count: 1, SinceMs: set.SinceMs, Replicated: ok,
		GoesFromMs: max(max(set.SinceMs, replicatedMs)+retention, b.HorizonMs)}
}
