package logstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// How a pass ended: label values of heartwood_cleaner_runs_total.
const (
	runSuccess     = "success"
	runNothingToDo = "nothing_to_do"
	runAborted     = "aborted"
	runFailed      = "failed"
)

var runResults = []string{runSuccess, runNothingToDo, runAborted, runFailed}

// counters are a log's sums over all passes that ended. They begin at 0 when the process starts, or the log is made anew.
type counters struct {
	runs                     map[string]int64 // by result; nil before the first
	read, written, reclaimed int64            // bytes
	removedRecords           int64
	lastSuccess              time.Time
	lastError                string // of the last pass, if it failed
}

// add returns the counters with one pass's work, and leaves c as it is; runs is shared and not touched.
func (c counters) add(s clean.Stats) counters {
	c.read += s.ReadBytes
	c.written += s.WrittenBytes
	c.reclaimed += s.ReclaimedBytes
	c.removedRecords += s.RecordsRemoved
	return c
}

// pass cleans one log, once, and notes how it ended. budget is in bytes. The settings are those of seen, also when others
// come meanwhile: a pass that changed its rules half way could not be told from the log it leaves.
func (c *Cleaner) pass(ctx context.Context, state *cleanerState, seen look, wanted need, budget int64) {
	logger := c.options().Logger.With("partition", seen.log.id)
	logger.Debug("cleaning began", "trigger", wanted.trigger, "dirtyBytes", seen.view.DirtyBytes, "cleanBytes", seen.view.CleanBytes)
	began := time.Now()
	stats, err := c.clean(ctx, state, seen, budget)
	result := resultOf(ctx, seen.log, stats, err)
	summary := []any{
		"result", result, "seconds", time.Since(began).Seconds(), "cleanedTo", stats.CleanedTo,
		"readBytes", stats.ReadBytes, "writtenBytes", stats.WrittenBytes, "reclaimedBytes", stats.ReclaimedBytes,
		"removedRecords", stats.RecordsRemoved, "removedTombstones", stats.TombstonesRemoved,
		"rewrittenSegments", stats.SegmentsRewritten, "unreadBatches", stats.OpaqueBatches, "memoryPeakBytes", stats.MemoryPeakBytes,
	}
	if err != nil {
		summary = append(summary, "error", err)
	}
	if result == runFailed {
		logger.Error("cleaning ended", summary...)
	} else {
		logger.Info("cleaning ended", summary...)
	}
	c.finish(state, seen, stats, result, err)
}

// resultOf names how a pass ended. It was aborted, and not its own fault, if somebody wanted it to end or took segments away.
func resultOf(ctx context.Context, log *Log, stats clean.Stats, err error) string {
	switch {
	case err == nil && stats.SegmentsRewritten > 0:
		return runSuccess
	case err == nil:
		return runNothingToDo
	case ctx.Err() != nil, errors.Is(err, errSegmentsChanged), errors.Is(err, ErrClosed), log.list.Load() == nil:
		return runAborted
	}
	return runFailed
}

// clean runs the pass and records how far the log is clean.
//
// The view is taken anew, because the one the scheduler saw may be old by now: a bound that has grown since is used at once, and
// segments that retention took are not waited for. From here on the view holds its segments: their files stay until Release,
// whatever retention, a release of the log or a swap does, so a pass never reads a file that is another's by now. What the pass
// cannot know is whether the segments are still the log's when it wants to replace them; replaceSegments looks, under
// Log.maintain, and says errSegmentsChanged. Then the pass is aborted, and the next one begins with what is there.
func (c *Cleaner) clean(ctx context.Context, state *cleanerState, seen look, budget int64) (clean.Stats, error) {
	log, now := seen.log, time.Now()
	view := log.cleanView(now)
	defer view.Release()
	if len(view.Segments) == 0 {
		return clean.Stats{CleanedTo: view.FirstDirty}, nil // closed, or cut down meanwhile
	}
	// Of each producer the pass keeps the last batch as of the view. A crash must not take that one, and leave the producer's last
	// batch one that the pass has removed: its repetition would be appended once more.
	if err := log.flush(); err != nil {
		return clean.Stats{CleanedTo: view.FirstDirty}, err
	}
	stats, err := clean.Run(ctx, clean.Job{
		Segments: view.Segments, FirstDirty: view.FirstDirty, Bound: view.Bound, Producers: view.Producers,
		Now: now, TombstoneRetention: seen.settings.TombstoneRetention,
		KeepCodec: seen.settings.KeepCodec, Codec: seen.settings.Codec, CodecLevel: seen.settings.CodecLevel,
		SpanMax:      spanMax(seen.settings),
		SegmentBytes: seen.settings.SegmentBytes, MemoryBytes: budget, HashKey: c.hashKey,
		Create: func(base int64) (*segment.Segment, error) {
			return segment.Create(log.env.fs, log.dir, base, cleanedSuffix, log.env.segments)
		},
		Replace: func(sources, cleaned []*segment.Segment) error {
			return log.replaceIn(view.Lineage, sources, cleaned)
		},
		Spend:    c.spend,
		Compress: log.env.compress(siteClean),
		Progress: func(p clean.Progress) {
			c.mu.Lock()
			defer c.mu.Unlock()
			state.progress = p
		},
	})
	if errors.Is(err, clean.ErrOverBudget) {
		// The reader of this is the user who can change it, so it names the field that he knows.
		err = fmt.Errorf("%w: raise spec.cleaner.memory of the LogCluster, of which each of its workers has an equal share", err)
	}
	if err != nil {
		return stats, err
	}
	return stats, log.setCleanedIn(view.Lineage, stats.CleanedTo, stats.NextHorizon)
}

// spanShare of the retention time is how much longer than that a record may stay, because it shares a segment with younger ones.
const spanShare = 8

// spanMax is clean.Job.SpanMax of a topic: 0 unless retention deletes by time.
func spanMax(s topicconfig.Settings) time.Duration {
	if !s.Delete || s.RetentionTime <= 0 {
		return 0
	}
	return max(s.RetentionTime/spanShare, time.Millisecond)
}

// finish notes how a pass ended, and frees its worker. The pass's own sums go into the counters in the same moment as its progress
// is cleared: a scrape sees them once, never twice or not at all.
func (c *Cleaner) finish(state *cleanerState, seen look, stats clean.Stats, result string, err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.busy--
	state.cancel, state.progress = nil, clean.Progress{}
	state.counters = state.counters.add(stats)
	if state.counters.runs == nil {
		state.counters.runs = map[string]int64{}
	}
	state.counters.runs[result]++
	switch result { // an aborted pass says nothing of the log: quarantine and last error stay
	case runSuccess, runNothingToDo:
		state.quarantine = quarantine{}
		state.counters.lastSuccess, state.counters.lastError = now, ""
	case runFailed:
		// The settings the pass ran with: if others came meanwhile, it is tried again at once.
		state.quarantine = state.quarantine.after(now, seen.config)
		state.counters.lastError = err.Error()
	}
	c.awake()
}
