package logstore

import (
	"maps"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// blockedQuarantined is the reason of log_blocked_bytes for what could be cleaned if the last pass
// had not failed.
const blockedQuarantined = "quarantined"

// Status returns what the cleaner knows of a log; nil if there is no such log, or it is not
// compacted.
func (c *Cleaner) Status(id PartitionID) *report.Compaction {
	log := c.store.Log(id)
	if log == nil {
		return nil
	}
	now := time.Now()
	return c.statusOf(lookAt(log, now), now)
}

// statusOf is Status of a log that was looked at.
func (c *Cleaner) statusOf(seen look, now time.Time) *report.Compaction {
	if !seen.settings.Compact || seen.closed {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.mu.logs[seen.log.id]
	if state == nil || state.log != seen.log { // the scheduler has not seen the log yet
		state = &cleanerState{log: seen.log, seen: now}
	}
	return c.reportLocked(state, seen, now)
}

// reportLocked puts a log's report together, at one moment of its state. Blocked bytes are copied,
// as the quarantine adds its own.
func (c *Cleaner) reportLocked(state *cleanerState, seen look, now time.Time) *report.Compaction {
	sums := state.counters.add(state.progress.Stats) // the counters move while a pass runs
	r := &report.Compaction{
		CleanBytes:           seen.view.CleanBytes,
		DirtyBytes:           seen.view.DirtyBytes,
		DirtyRatio:           seen.view.dirtyRatio(),
		BlockedBytes:         maps.Clone(seen.view.Blocked),
		Runs:                 map[string]int64{},
		ReadBytes:            sums.read,
		WrittenBytes:         sums.written,
		SidecarReadBytes:     sums.sidecarRead,
		SidecarWrittenBytes:  sums.sidecarWritten,
		ReclaimedBytes:       sums.reclaimed,
		RemovedRecords:       sums.removedRecords,
		LastError:            sums.lastError,
		LastErrorTime:        unixSeconds(sums.lastFailure),
		LastSuccess:          unixSeconds(sums.lastSuccess),
		LonelyOffset:         seen.log.LonelyTo(),
		ReplicasLonelyOffset: seen.log.replicasLonelyTo(),
		NextDue:              unixSeconds(state.nextDue(seen, now)),
		OverdueSeconds:       overdueBy(seen.view, seen.settings, state.oldest, now).Seconds(),
	}
	var phase clean.Phase
	phase, r.Reason, r.Trigger = c.phaseLocked(state, seen, now)
	r.Phase = phase.String()
	for _, result := range runResults {
		r.Runs[result] = sums.runs[result]
	}
	if r.Reason == reasonQuarantined {
		r.BlockedBytes[blockedQuarantined] = seen.view.DirtyBytes
	}
	r.RunningPass, r.LastPass, r.CleanNowAsked, r.CleanNowServed = state.runningPass(), state.last,
		state.asked, state.served
	if state.running() {
		r.ProgressRatio, r.EtaSeconds = progressOf(state.progress, now.Sub(state.began))
	}
	r.ReclaimableBytes, r.ReclaimableExact = reclaimable(state, seen.view)
	if all := seen.view.CleanBytes + seen.view.DirtyBytes; r.ReclaimableBytes != nil && all > 0 {
		ratio := min(1, float64(*r.ReclaimableBytes)/float64(all))
		r.GarbageRatio = &ratio
	}
	return r
}

// unixSeconds is how a report writes a time; nil for none.
func unixSeconds(at time.Time) *float64 {
	if at.IsZero() {
		return nil
	}
	seconds := float64(at.UnixMilli()) / 1000
	return &seconds
}

// phaseLocked returns what the cleaner does with a log, why, and what made its pass due. The order
// matters: a pass that still runs after the workers were set to none is shown; a quarantine without
// workers is not, because lifting it would change nothing.
func (c *Cleaner) phaseLocked(state *cleanerState, seen look, now time.Time) (phase clean.Phase,
	reason, trigger string) {
	switch {
	case state.running() && state.fresh:
		return clean.Queued, reasonQueued, state.trigger
	case state.running():
		return state.progress.Phase, reasonCleaning, state.trigger
	case c.mu.opts.Workers == 0:
		return clean.Idle, reasonCleanerDisabled, ""
	case state.quarantine.holds(now, seen.config):
		return clean.Idle, reasonQuarantined, ""
	}
	if wanted := c.needLocked(state, seen, now); wanted.trigger != "" {
		return clean.Queued, reasonQueued, wanted.trigger
	}
	return clean.Idle, idleReason(seen.view, seen.settings), ""
}

// progressOf returns how much of a pass is done, 0 to 1, and how long the rest takes at the pace so
// far, in seconds; nil while there is no pace. Time spent on waiting for the I/O budget is part of
// the pace.
func progressOf(p clean.PassProgress, elapsed time.Duration) (ratio float64, eta *float64) {
	if p.TotalBytes == 0 || p.DoneBytes == 0 {
		return 0, nil
	}
	ratio = float64(p.DoneBytes) / float64(p.TotalBytes)
	left := elapsed.Seconds() * (1 - ratio) / ratio
	return ratio, &left
}

// reclaimable is the garbage of a log, nil while nobody has looked, and whether a pass has counted
// it. While a pass rewrites, it is what that will still free.
func reclaimable(state *cleanerState, v cleanView) (bytes *int64, exact bool) {
	e := state.estimate
	switch {
	case state.running() && state.progress.Measured:
		left := max(0, state.progress.ReclaimableBytes)
		return &left, true
	case v.CleanBytes+v.DirtyBytes == 0:
		return new(int64), false // there is nothing to look at
	case !e.known || e.lineage != v.Lineage:
		return nil, false
	}
	return &e.bytes, e.exact && v.DirtyBytes == 0
}
