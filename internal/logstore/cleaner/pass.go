package cleaner

import (
	"context"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// Results of a pass: label values of heartwood_cleaner_runs_total.
const (
	runSuccess     = report.ResultSuccess
	runNothingToDo = report.ResultNothingToDo
	runAborted     = report.ResultAborted
	runFailed      = report.ResultFailed
)

var runResults = []string{runSuccess, runNothingToDo, runAborted, runFailed}

// counters are a log's sums over all passes that ended. They start at 0 with the process, and when
// the log is deleted and created again.
type counters struct {
	runs                     map[string]int64 // by result; nil before the first pass
	read, written, reclaimed int64            // bytes of logs
	sidecarRead              int64            // bytes of sidecars
	sidecarWritten           int64
	removedRecords           int64
	lastSuccess              time.Time
	// error of the last failed pass; "" if a pass has succeeded since
	lastError   string
	lastFailure time.Time
}

// add returns the counters plus one pass, and leaves c unchanged; the map runs is shared.
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
	workers     int // hash slices resolved at once, if enough worker slots are free
	thorough    bool
}

// passOptions connects a pass to the shared budgets and to its state.
func (c *Cleaner) passOptions(state *logState, view logView, held *heldSlots,
	budget passBudget) logstore.PassOptions {
	return logstore.PassOptions{
		Settings: view.settings, Thorough: budget.thorough,
		MemoryBytes: budget.memoryBytes, Workers: budget.workers, Parallel: held.parallel,
		Slot: c.sidecarSlotFor(held),
		Throttle: func(ctx context.Context, n int) error {
			if err := c.limit.wait(ctx, n); err != nil {
				return err
			}
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
		},
	}
}

// pass compacts one log once, logs the result and stores it in the state.
func (c *Cleaner) pass(ctx context.Context, state *logState, view logView,
	opts logstore.PassOptions) (result string) {
	logger := c.options().Logger.With("partition", view.log.ID())
	logger.Debug("compaction started", "trigger", state.trigger, "dirtyBytes", view.DirtyBytes,
		"cleanBytes", view.CleanBytes)
	began := time.Now()
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
	c.finish(state, view, stats, result, err)
	return result
}

// resultOf returns the result of a pass. It was aborted, and did not fail, if it was cancelled, or
// its segments or its log were removed.
func resultOf(ctx context.Context, log *logstore.Compaction, stats clean.Stats, err error) string {
	switch {
	case err == nil && stats.SegmentsRewritten > 0:
		return runSuccess
	case err == nil:
		return runNothingToDo
	case ctx.Err() != nil, logstore.IsPassAborted(err), log.Closed():
		return runAborted
	}
	return runFailed
}

// finish stores the result of a pass in the state, and ends the pass. It adds the sums of the pass
// to the counters and clears the progress under one lock, so a scrape includes the sums exactly
// once.
func (c *Cleaner) finish(state *logState, view logView, stats clean.Stats, result string,
	err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.passes--
	c.mu.grantedBytes -= state.granted
	state.endPass(now, stats, result, err)
	state.cancel, state.progress, state.granted, state.trigger, state.ended = nil,
		clean.PassProgress{},
		0, "", now
	state.counters = state.counters.add(stats)
	if state.counters.runs == nil {
		state.counters.runs = map[string]int64{}
	}
	state.counters.runs[result]++
	switch result { // after an aborted pass, quarantine and last error stay
	case runSuccess, runNothingToDo:
		state.quarantine, state.oldest = quarantine{}, stats.OldestGarbage
		state.counters.lastSuccess, state.counters.lastError, state.counters.lastFailure = now, "",
			time.Time{}
		if stats.SegmentsTotal > 0 {
			state.estimate = estimate{made: true, Garbage: logstore.Garbage{
				Sections: logstore.Sections{Truncations: state.truncations, FirstDirty: stats.CleanedTo},
				Known:    true, Exact: true, Bytes: stats.GarbageBytes,
			}}
		}
	case runFailed:
		// The quarantine has the settings of the pass: if the settings have changed meanwhile, the
		// pass is retried at once.
		state.quarantine = state.quarantine.after(now, view.settings)
		state.counters.lastError, state.counters.lastFailure = err.Error(), now
	}
	c.awake()
}

// endPass stores the pass that ends now as the last pass, and its request as served. An aborted
// pass does not serve its request: the request is repeated. The caller holds Cleaner.mu.
func (s *logState) endPass(now time.Time, stats clean.Stats, result string, err error) {
	s.last = passReport(s.trigger, s.began, stats)
	s.last.Ended, s.last.Result = unixSeconds(now), result
	if err != nil {
		s.last.Error = err.Error()
	}
	if result != runAborted {
		s.served = max(s.served, s.serving)
	}
	s.serving = 0
}
