package cleaner

import (
	"context"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
)

// These results of a pass are the values of the label result of heartwood_cleaner_runs_total.
const (
	runSuccess     = report.ResultSuccess
	runNothingToDo = report.ResultNothingToDo
	runAborted     = report.ResultAborted
	runFailed      = report.ResultFailed
)

var runResults = [...]string{runSuccess, runNothingToDo, runAborted, runFailed}

// counters contains the sums of all passes over a log that have ended. They start at 0 when the
// process starts, and when the log is deleted and created again, because the metrics are counters
// of the process. logState.before contains the sums of earlier passes.
type counters struct {
	runs                     [len(runResults)]int64 // in the order of runResults
	read, written, reclaimed int64                  // bytes of data files
	sidecarRead              int64                  // bytes of sidecars
	sidecarWritten           int64
	removedRecords           int64
	// lastError is the error of the last failed pass, or "" if a later pass has succeeded.
	lastError   string
	lastFailure time.Time
}

// add returns the counters plus the statistics of one pass. It does not change c.
func (c counters) add(s clean.Stats) counters {
	c.read += s.LogReadBytes
	c.written += s.LogWrittenBytes
	c.sidecarRead += s.SidecarReadBytes
	c.sidecarWritten += s.SidecarWrittenBytes
	c.reclaimed += s.ReclaimedBytes
	c.removedRecords += s.RecordsRemoved
	return c
}

// passBudget limits the resources of a pass.
type passBudget struct {
	memoryBytes int64
	workers     int // number of hash slices that run at once if enough worker slots are free
	thorough    bool
	garbageMax  int // percent; 0 for the topic's limit
}

// passOptions returns the options of a pass. The options connect the pass to the budgets that all
// passes share, and to the log's state.
func (c *Cleaner) passOptions(state *logState, view logView, held *heldSlots,
	budget passBudget) compaction.PassOptions {
	return compaction.PassOptions{
		Settings: view.settings, Thorough: budget.thorough,
		GarbageMax:  budget.garbageMax,
		MemoryBytes: budget.memoryBytes, Workers: budget.workers, Parallel: held.parallel,
		Slot: c.sidecarSlotFor(held),
		Throttle: func(ctx context.Context, n int) error {
			waited, err := c.limit.timedWait(ctx, n)
			if err != nil {
				return err
			}
			c.mu.Lock()
			state.throttled += waited
			c.mu.Unlock()
			return held.used(ctx, n)
		},
		Started: func(truncations int64) {
			c.mu.Lock()
			defer c.mu.Unlock()
			state.truncations = truncations
		},
		Progress: func(p clean.PassProgress) {
			c.mu.Lock()
			defer c.mu.Unlock()
			state.progress = p
			state.rate.add(time.Now(), p.Stats.IOBytes())
		},
	}
}

// pass runs one pass over a log, logs its result and stores the result in the state.
func (c *Cleaner) pass(ctx context.Context, state *logState, view logView,
	opts compaction.PassOptions) (result string) {
	logger := c.options().Logger.With("partition", view.log.ID())
	logger.Debug("compaction started", "trigger", state.trigger, "dirtyBytes", view.DirtyBytes,
		"cleanBytes", view.CleanBytes)
	began := time.Now()
	recorded := c.record(state, view.log, &opts)
	stats, err := view.log.Pass(ctx, opts)
	result = resultOf(ctx, view.log, stats, err)
	summary := []any{
		"result", result, "trigger", state.trigger, "seconds", time.Since(began).Seconds(),
		"cleanedTo", stats.CleanedTo,
		"readBytes", stats.LogReadBytes, "writtenBytes", stats.LogWrittenBytes,
		"reclaimedBytes", stats.ReclaimedBytes,
		"sidecarReadBytes", stats.SidecarReadBytes,
		"sidecarWrittenBytes", stats.SidecarWrittenBytes,
		"removedRecords", stats.RecordsRemoved, "removedTombstones", stats.TombstonesRemoved,
		"removedMarkers", stats.MarkersRemoved,
		"rewrittenSegments", stats.SegmentsRewritten, "untouchedSegments", stats.SegmentsUntouched,
		"garbageBytes", stats.GarbageBytes,
		"unreadBatches", stats.OpaqueBatches, "memoryPeakBytes", stats.MemoryPeakBytes,
		"memoryGrantedBytes", opts.MemoryBytes,
	}
	if err != nil {
		summary = append(summary, "error", err)
	}
	switch result {
	case runFailed:
		logger.Error("compaction failed", summary...)
	case runAborted:
		logger.Info("compaction aborted", summary...)
	default:
		logger.Info("compaction completed", summary...)
	}
	view.log.LoadCounts()
	ended, moment := c.finish(state, view, stats, result, err)
	recorded.End(ended, moment)
	return result
}

// resultOf returns the result of a pass. A pass counts as aborted, and not as failed, if it was
// canceled, or if its log or segments were removed meanwhile.
func resultOf(ctx context.Context, log *compaction.Compaction, stats clean.Stats,
	err error) string {
	switch {
	case err == nil && stats.SegmentsRewritten > 0:
		return runSuccess
	case err == nil:
		return runNothingToDo
	case ctx.Err() != nil, compaction.IsPassAborted(err), log.Closed():
		return runAborted
	}
	return runFailed
}

// finish stores the result of a pass in the state, and marks the pass as ended. It returns the
// pass's report and end time. It adds the pass's sums to the counters and clears the progress under
// one lock, so a scrape includes the pass exactly once.
func (c *Cleaner) finish(state *logState, view logView, stats clean.Stats, result string,
	err error) (ended report.Pass, now time.Time) {
	now = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.passes--
	c.mu.grantedBytes -= state.granted
	state.endPass(now, stats, result, err)
	state.cancel, state.progress, state.granted, state.trigger, state.ended = nil,
		clean.PassProgress{},
		0, "", now
	state.chosen, state.passID, state.rate, state.throttled = nil, 0, ioRate{}, 0
	state.counters = state.counters.add(stats)
	state.counters.runs[slices.Index(runResults[:], result)]++
	switch result { // an aborted pass changes neither the quarantine nor the last error
	case runSuccess, runNothingToDo:
		state.quarantine, state.oldest = quarantine{}, stats.OldestGarbage
		state.lastSuccess = state.last.Ended
		state.counters.lastError, state.counters.lastFailure = "", time.Time{}
		if stats.SegmentsTotal > 0 {
			state.estimate = estimate{made: true, Garbage: compaction.Garbage{
				Sections: compaction.Sections{Truncations: state.truncations,
					FirstDirty: stats.CleanedTo, LogStart: view.LogStart},
				Known: true, Exact: true, Bytes: stats.GarbageBytes,
			}}
			state.garbage = countedGarbage{known: true, records: stats.GarbageRecords,
				truncations: state.truncations, logStart: view.LogStart}
		}
	case runFailed:
		// The quarantine applies to the settings of the pass. If the settings have changed during
		// the pass, the pass is retried at once.
		state.quarantine = state.quarantine.after(now, view.settings)
		state.counters.lastError, state.counters.lastFailure = err.Error(), now
	}
	c.awake()
	return *state.last, now
}

// endPass stores the pass that ends at the time now as the last pass, and marks the pass's request
// as served. If the pass was aborted, its request is not served but repeated. The caller holds
// Cleaner.mu.
func (s *logState) endPass(now time.Time, stats clean.Stats, result string, err error) {
	s.last = s.passReport(stats)
	s.last.Ended, s.last.Result = unixSeconds(now), result
	if err != nil {
		s.last.Error = err.Error()
	}
	if result != runAborted {
		s.served = max(s.served, s.serving)
	}
	s.serving = 0
}
