package cleaner

import (
	"maps"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Reasons for a log's phase, as in the Topic condition Compacting (api/v1alpha1).
const (
	reasonUpToDate          = "UpToDate"
	reasonCleaning          = "Cleaning"
	reasonQueued            = "Queued"
	reasonBelowDirtyRatio   = "BelowDirtyRatio"
	reasonNothingToReclaim  = "NothingToReclaim"
	reasonActiveSegmentOnly = "ActiveSegmentOnly"
	reasonMinLagNotReached  = "MinLagNotReached"
	reasonOpenTransaction   = "BlockedByOpenTransaction"
	reasonQuarantined       = "Quarantined"
	reasonCleanerDisabled   = "CleanerDisabled"
	reasonUnknown           = "Unknown"
)

// Status returns the cleaner's report on a log, or nil if the log does not exist or is not
// compacted.
func (c *Cleaner) Status(id logstore.PartitionID) *report.Compaction {
	log := c.store.Log(id)
	if log == nil {
		return nil
	}
	now := time.Now()
	return c.statusOf(viewOf(log.Compaction(), now), now)
}

// statusOf returns the report on a view's log, or nil if the log is not compacted.
func (c *Cleaner) statusOf(view logView, now time.Time) *report.Compaction {
	status, _ := c.sample(view, now)
	return status
}

// sample returns the report on a view's log, or nil if the log is not compacted. It also returns
// the counters of this process, including the running pass.
func (c *Cleaner) sample(view logView, now time.Time) (*report.Compaction, counters) {
	if !view.compacted() {
		return nil, counters{}
	}
	// CountRecords is called before the lock is acquired, because the duration of the call grows
	// with the number of segments.
	records, exact := view.log.CountRecords()
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.mu.logs[view.log.ID()]
	if state == nil || state.log != view.log { // the scheduler has not processed the log yet
		state = c.newState(view.log, now)
	}
	r := c.reportLocked(state, view, now)
	r.Records, r.RecordsExact, r.DistinctKeys = &records, exact, state.distinctKeys(view, records)
	return r, state.counters.add(state.progress.Stats)
}

// reportLocked returns the report on a log. The report is consistent, because it is computed while
// Cleaner.mu is locked. It copies the view's blocked bytes before it adds the bytes that a
// quarantine blocks.
func (c *Cleaner) reportLocked(state *logState, view logView, now time.Time) *report.Compaction {
	// Include the running pass, so that the counters increase while it runs.
	sums, before := state.counters.add(state.progress.Stats), state.before
	r := &report.Compaction{
		CleanBytes:                   view.CleanBytes,
		DirtyBytes:                   view.DirtyBytes,
		DirtyRatio:                   view.DirtyRatio(),
		BlockedBytes:                 maps.Clone(view.Blocked),
		Runs:                         map[string]int64{},
		ReadBytes:                    before.ReadBytes + sums.read,
		WrittenBytes:                 before.WrittenBytes + sums.written,
		SidecarReadBytes:             before.SidecarReadBytes + sums.sidecarRead,
		SidecarWrittenBytes:          before.SidecarWrittenBytes + sums.sidecarWritten,
		ReclaimedBytes:               before.ReclaimedBytes + sums.reclaimed,
		RemovedRecords:               before.RemovedRecords + sums.removedRecords,
		LastError:                    sums.lastError,
		LastErrorTime:                unixSeconds(sums.lastFailure),
		LastSuccess:                  state.lastSuccess,
		TombstoneCleanOffset:         view.log.Progress.TombstoneClean(),
		ReplicasTombstoneCleanOffset: view.log.Progress.ReportedReplicasTombstoneClean(),
		NextDue:                      unixSeconds(state.nextDue(view, now)),
		OverdueSeconds: overdueBy(view.Sections, view.settings, state.oldest,
			now).Seconds(),
	}
	r.MaxGarbagePercent, r.CleanCompression = new(view.settings.MaxGarbagePercent),
		view.settings.CleanCodec.String()
	var phase clean.Phase
	phase, r.Reason, r.Trigger = c.phaseLocked(state, view, now)
	r.Phase = phase.String()
	for i, result := range runResults {
		r.Runs[result] = before.Runs[result] + sums.runs[i]
	}
	if r.Reason == reasonQuarantined {
		r.BlockedBytes[compaction.BlockedQuarantined] = view.DirtyBytes
	}
	r.RunningPass, r.LastPass, r.CleanNowAsked, r.CleanNowServed = state.runningPass(now), state.last,
		state.asked, state.served
	if state.running() {
		r.ProgressRatio, r.EtaSeconds = progressOf(state.progress, now.Sub(state.began))
	}
	r.ReclaimableBytes, r.ReclaimableExact = state.reclaimable(view.Sections)
	if all := view.CleanBytes + view.DirtyBytes; r.ReclaimableBytes != nil && all > 0 {
		ratio := min(1, float64(*r.ReclaimableBytes)/float64(all))
		r.GarbageRatio = &ratio
	}
	return r
}

// unixSeconds returns a time in seconds for a report, or nil for the zero time.
func unixSeconds(moment time.Time) *float64 {
	if moment.IsZero() {
		return nil
	}
	seconds := float64(moment.UnixMilli()) / 1000
	return &seconds
}

// phaseLocked returns a log's phase, the reason for the phase, and the trigger of the pass. The
// order of the cases matters: a pass that is still running after all worker slots were removed is
// reported as running. Without worker slots a quarantine is not reported, because the end of the
// quarantine would change nothing.
func (c *Cleaner) phaseLocked(state *logState, view logView, now time.Time) (phase clean.Phase,
	reason, trigger string) {
	switch {
	case state.running() && state.waiting:
		return clean.Queued, reasonQueued, state.trigger
	case state.running():
		return state.progress.Phase, reasonCleaning, state.trigger
	case c.mu.opts.Workers == 0:
		return clean.Idle, reasonCleanerDisabled, ""
	case state.quarantine.active(now, view.settings):
		return clean.Idle, reasonQuarantined, ""
	}
	if due := state.passDue(view, now); due.trigger != "" {
		return clean.Queued, reasonQueued, due.trigger
	}
	reason = idleReason(view.Sections, view.settings)
	if reason == reasonNothingToReclaim && state.estimate.stale(view.Sections) {
		reason = reasonUnknown
	}
	return clean.Idle, reason, ""
}

// idleReason returns the reason why a log needs no pass now, although it may contain records that a
// pass could remove.
func idleReason(s compaction.Sections, settings *topicconfig.Settings) string {
	switch {
	case s.DirtyBytes > 0 && s.DirtyRatio()*100 > settings.MinDirtyPercent:
		return reasonNothingToReclaim
	case s.DirtyBytes > 0:
		return reasonBelowDirtyRatio
	case s.Blocked[compaction.BlockedMinLag] > 0:
		return reasonMinLagNotReached
	case s.Blocked[compaction.BlockedTransaction] > 0:
		return reasonOpenTransaction
	case s.Blocked[compaction.BlockedActive]+s.Blocked[compaction.BlockedUnreplicated] > 0:
		return reasonActiveSegmentOnly
	}
	return reasonUpToDate
}

// progressOf returns the completed share of a pass, from 0 to 1, and the number of seconds that the
// rest will take at the same rate. eta is nil while the rate is unknown. The elapsed time includes
// waits for the I/O budget.
func progressOf(p clean.PassProgress, elapsed time.Duration) (ratio float64, eta *float64) {
	if p.TotalBytes == 0 || p.DoneBytes == 0 {
		return 0, nil
	}
	ratio = float64(p.DoneBytes) / float64(p.TotalBytes)
	left := elapsed.Seconds() * (1 - ratio) / ratio
	return ratio, &left
}

// passReport returns the report on the running pass with its statistics so far. The caller holds
// Cleaner.mu.
func (s *logState) passReport(stats clean.Stats) *report.Pass {
	return &report.Pass{
		Trigger: s.trigger, Began: *unixSeconds(s.began),
		ThrottledSeconds: s.throttled.Seconds(),
		ReadBytes:        stats.LogReadBytes, WrittenBytes: stats.LogWrittenBytes,
		SidecarReadBytes: stats.SidecarReadBytes, SidecarWrittenBytes: stats.SidecarWrittenBytes,
		ReclaimedBytes: stats.ReclaimedBytes, RemovedRecords: stats.RecordsRemoved,
		RemovedTombstones: stats.TombstonesRemoved,
		RewrittenSegments: stats.SegmentsRewritten, UntouchedSegments: stats.SegmentsUntouched,
		MemoryPeakBytes: stats.MemoryPeakBytes,
	}
}

// runningPass returns the report on the running pass. It returns nil if no pass runs or the pass
// waits for its first worker slot. The caller holds Cleaner.mu.
func (s *logState) runningPass(now time.Time) *report.Pass {
	if !s.running() || s.waiting {
		return nil
	}
	stats := s.progress.Stats
	pass := s.passReport(stats)
	pass.BytesPerSecond = s.rate.perSecond(now, stats.IOBytes())
	return pass
}
