package cleaner

import (
	"maps"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Reasons of the Topic condition Compacting (api/v1alpha1).
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
)

// Status returns the cleaner's report of a log; nil if there is no such log, or it is not
// compacted.
func (c *Cleaner) Status(id logstore.PartitionID) *report.Compaction {
	log := c.store.Log(id)
	if log == nil {
		return nil
	}
	now := time.Now()
	return c.statusOf(viewOf(log.Compaction(), now), now)
}

// statusOf is Status of a view.
func (c *Cleaner) statusOf(view logView, now time.Time) *report.Compaction {
	if !view.compacted() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.mu.logs[view.log.ID()]
	if state == nil || state.log != view.log { // the scheduler has not seen the log yet
		state = &logState{log: view.log, firstSeen: now}
	}
	return c.reportLocked(state, view, now)
}

// reportLocked returns a log's report, which is consistent: it is computed under one lock. Blocked
// bytes are copied, because the quarantine adds further ones.
func (c *Cleaner) reportLocked(state *logState, view logView, now time.Time) *report.Compaction {
	// with the running pass, so that the counters rise while it runs
	sums := state.counters.add(state.progress.Stats)
	r := &report.Compaction{
		CleanBytes:                   view.CleanBytes,
		DirtyBytes:                   view.DirtyBytes,
		DirtyRatio:                   view.DirtyRatio(),
		BlockedBytes:                 maps.Clone(view.Blocked),
		Runs:                         map[string]int64{},
		ReadBytes:                    sums.read,
		WrittenBytes:                 sums.written,
		SidecarReadBytes:             sums.sidecarRead,
		SidecarWrittenBytes:          sums.sidecarWritten,
		ReclaimedBytes:               sums.reclaimed,
		RemovedRecords:               sums.removedRecords,
		LastError:                    sums.lastError,
		LastErrorTime:                unixSeconds(sums.lastFailure),
		LastSuccess:                  unixSeconds(sums.lastSuccess),
		TombstoneCleanOffset:         view.log.TombstoneClean(),
		ReplicasTombstoneCleanOffset: view.log.ReportedReplicasTombstoneClean(),
		NextDue:                      unixSeconds(state.nextDue(view, now)),
		OverdueSeconds: overdueBy(view.Sections, view.settings, state.oldest,
			now).Seconds(),
	}
	var phase clean.Phase
	phase, r.Reason, r.Trigger = c.phaseLocked(state, view, now)
	r.Phase = phase.String()
	for _, result := range runResults {
		r.Runs[result] = sums.runs[result]
	}
	if r.Reason == reasonQuarantined {
		r.BlockedBytes[logstore.BlockedQuarantined] = view.DirtyBytes
	}
	r.RunningPass, r.LastPass, r.CleanNowAsked, r.CleanNowServed = state.runningPass(), state.last,
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

// unixSeconds converts a time for a report; nil for the zero time.
func unixSeconds(at time.Time) *float64 {
	if at.IsZero() {
		return nil
	}
	seconds := float64(at.UnixMilli()) / 1000
	return &seconds
}

// phaseLocked returns the phase of a log, the reason for the phase, and the trigger of the pass.
// The order matters: a pass that still runs after the workers were set to none is reported; a
// quarantine without workers is not, because ending it would change nothing.
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
	return clean.Idle, idleReason(view.Sections, view.settings), ""
}

// idleReason returns why no pass is due, though the log may contain records that a pass could
// remove.
func idleReason(s logstore.Sections, settings *topicconfig.Settings) string {
	switch {
	case s.DirtyBytes > 0 && s.DirtyRatio()*100 > float64(settings.MinDirtyPercent):
		return reasonNothingToReclaim
	case s.DirtyBytes > 0:
		return reasonBelowDirtyRatio
	case s.Blocked[logstore.BlockedMinLag] > 0:
		return reasonMinLagNotReached
	case s.Blocked[logstore.BlockedTransaction] > 0:
		return reasonOpenTransaction
	case s.Blocked[logstore.BlockedActive]+s.Blocked[logstore.BlockedUnreplicated] > 0:
		return reasonActiveSegmentOnly
	}
	return reasonUpToDate
}

// progressOf returns the share of a pass that is done, 0 to 1, and how many seconds the rest takes
// at the same rate; nil while the rate is unknown. Time spent waiting for the I/O budget is part of
// the elapsed time.
func progressOf(p clean.PassProgress, elapsed time.Duration) (ratio float64, eta *float64) {
	if p.TotalBytes == 0 || p.DoneBytes == 0 {
		return 0, nil
	}
	ratio = float64(p.DoneBytes) / float64(p.TotalBytes)
	left := elapsed.Seconds() * (1 - ratio) / ratio
	return ratio, &left
}

// passReport reports a pass with its sums so far.
func passReport(trigger string, began time.Time, s clean.Stats) *report.Pass {
	return &report.Pass{
		Trigger: trigger, Began: *unixSeconds(began),
		ReadBytes: s.LogReadBytes, WrittenBytes: s.LogWrittenBytes,
		SidecarReadBytes: s.SidecarReadBytes, SidecarWrittenBytes: s.SidecarWrittenBytes,
		ReclaimedBytes: s.ReclaimedBytes, RemovedRecords: s.RecordsRemoved,
		RemovedTombstones: s.TombstonesRemoved,
		RewrittenSegments: s.SegmentsRewritten, UntouchedSegments: s.SegmentsUntouched,
		MemoryPeakBytes: s.MemoryPeakBytes,
	}
}

// runningPass reports the running pass, nil if none runs or it waits for its first worker slot. It
// needs Cleaner.mu.
func (s *logState) runningPass() *report.Pass {
	if !s.running() || s.waiting {
		return nil
	}
	return passReport(s.trigger, s.began, s.progress.Stats)
}
