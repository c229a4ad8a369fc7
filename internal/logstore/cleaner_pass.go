package logstore

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// How a pass ended: label values of heartwood_cleaner_runs_total.
const (
	runSuccess     = report.ResultSuccess
	runNothingToDo = report.ResultNothingToDo
	runAborted     = report.ResultAborted
	runFailed      = report.ResultFailed
)

var runResults = []string{runSuccess, runNothingToDo, runAborted, runFailed}

// counters are a log's sums over all passes that ended. They begin at 0 when the process starts, or
// the log is made anew.
type counters struct {
	runs                     map[string]int64 // by result; nil before the first
	read, written, reclaimed int64            // bytes of logs
	sidecarRead              int64            // bytes of sidecars
	sidecarWritten           int64
	removedRecords           int64
	lastSuccess              time.Time
	lastError                string // of the last pass that failed, if none has succeeded since
	lastFailure              time.Time
}

// add returns the counters with one pass's work, and leaves c as it is; runs is shared and not
// touched.
func (c counters) add(s clean.Stats) counters {
	c.read += s.LogReadBytes
	c.written += s.LogWrittenBytes
	c.sidecarRead += s.SidecarReadBytes
	c.sidecarWritten += s.SidecarWrittenBytes
	c.reclaimed += s.ReclaimedBytes
	c.removedRecords += s.RecordsRemoved
	return c
}

// budget is what a pass may use.
type budget struct {
	memoryBytes int64
	workers     int    // slices resolved at once, if nobody else wants the workers
	shift       *shift // nil: nobody shares the workers
}

// pass cleans one log, once, and notes how it ended. The settings are those of seen, also when
// others come meanwhile: a pass that changed its rules half way could not be told from the log it
// leaves.
func (c *Cleaner) pass(ctx context.Context, state *cleanerState, seen look,
	with budget) (result string) {
	logger := c.options().Logger.With("partition", seen.log.id)
	logger.Debug("cleaning began", "trigger", state.trigger, "dirtyBytes", seen.view.DirtyBytes,
		"cleanBytes", seen.view.CleanBytes)
	began := time.Now()
	stats, err := c.clean(ctx, state, seen, with)
	result = resultOf(ctx, seen.log, stats, err)
	summary := []any{
		"result", result, "trigger", state.trigger, "seconds", time.Since(began).Seconds(),
		"cleanedTo", stats.CleanedTo,
		"readBytes", stats.LogReadBytes, "writtenBytes", stats.LogWrittenBytes, "reclaimedBytes",
		stats.ReclaimedBytes,
		"sidecarReadBytes", stats.SidecarReadBytes, "sidecarWrittenBytes",
		stats.SidecarWrittenBytes,
		"removedRecords", stats.RecordsRemoved, "removedTombstones", stats.TombstonesRemoved,
		"removedMarkers", stats.MarkersRemoved,
		"rewrittenSegments", stats.SegmentsRewritten, "untouchedSegments", stats.SegmentsUntouched,
		"garbageBytes", stats.GarbageBytes,
		"unreadBatches", stats.OpaqueBatches, "memoryPeakBytes", stats.MemoryPeakBytes,
		"memoryGrantedBytes", with.memoryBytes,
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
	return result
}

// resultOf names how a pass ended. It was aborted, and not its own fault, if somebody wanted it to
// end or took segments away.
func resultOf(ctx context.Context, log *Log, stats clean.Stats, err error) string {
	switch {
	case err == nil && stats.SegmentsRewritten > 0:
		return runSuccess
	case err == nil:
		return runNothingToDo
	case ctx.Err() != nil,
		errors.Is(err, errSegmentsChanged),
		errors.Is(err, ErrClosed),
		log.list.Load() == nil:
		return runAborted
	}
	return runFailed
}

// clean runs the pass and records how far the log is clean. A pass that found a sidecar wrong has
// made it anew, and is begun again at once.
func (c *Cleaner) clean(ctx context.Context, state *cleanerState, seen look,
	with budget) (clean.Stats, error) {
	if err := ctx.Err(); err != nil {
		return clean.Stats{CleanedTo: seen.view.FirstDirty}, err
	}
	defer seen.log.trimSidecars()
	stats, lineage, err := c.cleanOnce(ctx, state, seen, with)
	if errors.Is(err, clean.ErrSidecar) && ctx.Err() == nil {
		seen.log.env.logger.Warn("key sidecar made anew", "partition", seen.log.id, "error", err)
		stats, lineage, err = c.cleanOnce(ctx, state, seen, with)
	}
	if err != nil {
		return stats, err
	}
	return stats, seen.log.setCleanedIn(lineage, stats)
}

// cleanOnce runs the pass, and returns the lineage of the log it was made for.
//
// The view is taken anew, because the one the scheduler saw may be old by now: a bound that has
// grown since is used at once, and segments that retention took are not waited for. From here on
// the view holds its segments: their files stay until Release, whatever retention, a release of the
// log or a swap does, so a pass never reads a file that is another's by now. What the pass cannot
// know is whether the segments are still the log's when it wants to replace them; replaceSegments
// looks, under Log.maintain, and says errSegmentsChanged. Then the pass is aborted, and the next
// one begins with what is there.
func (c *Cleaner) cleanOnce(ctx context.Context, state *cleanerState, seen look,
	with budget) (clean.Stats, int64, error) {
	log, now := seen.log, seen.at
	if now.IsZero() {
		now = time.Now()
	}
	view := log.cleanView(now)
	defer view.Release()
	if len(view.Segments) == 0 {
		// closed, or cut down meanwhile
		return clean.Stats{CleanedTo: view.FirstDirty}, view.Lineage, nil
	}
	c.mu.Lock()
	state.lineage = view.Lineage
	c.mu.Unlock()
	// Of each producer the pass keeps the last batch as of the view. A crash must not take that
	// one, and leave the producer's last batch one that the pass has removed: its repetition would
	// be appended once more.
	if err := log.flush(); err != nil {
		return clean.Stats{CleanedTo: view.FirstDirty}, view.Lineage, err
	}
	salt := log.sidecars.salt.Load()
	if salt == nil {
		return clean.Stats{CleanedTo: view.FirstDirty}, view.Lineage, errNoKeys
	}
	job := clean.Job{
		LogStart: view.LogStart, FirstDirty: view.FirstDirty, Bound: view.Bound,
		AbortedAcrossBound: view.Aborted, Lineage: log.lineageOf,
		Now: now, Rules: rulesOf(seen.settings),
		Limits:           clean.Limits{MemoryBytes: with.memoryBytes},
		CleaningProgress: log.agreement.agreed(), Producers: view.Producers, Hasher: salt.Hasher(),
		Env: c.envOf(log, view.Lineage, state, with.shift),
	}
	if with.shift != nil {
		job.Limits.Workers, job.Limits.Parallel = with.workers, with.shift.parallel
	}
	if seen.thorough {
		job.Rules.MaxGarbagePercent = 0
	}
	for _, s := range view.Segments {
		job.Sources = append(job.Sources, clean.Source{Segment: s, DeadFile: log.loadDead(s)})
	}
	run := clean.Run
	if seen.run != nil {
		run = seen.run
	}
	stats, err := run(ctx, job)
	return stats, view.Lineage, err
}

// rulesOf returns what a topic's settings say about a pass.
func rulesOf(s topicconfig.Settings) clean.Rules {
	rules := clean.Rules{
		TombstoneRetention: s.TombstoneRetention, MaxLag: max(0, s.MaxLag),
		MaxGarbagePercent: s.MaxGarbagePercent,
		KeepCodec:         s.KeepCodec, Codec: clean.Codec{Type: s.Codec, Level: s.CodecLevel},
		SegmentBytes: s.SegmentBytes, TimestampSpanMax: spanMax(s),
	}
	if s.CleanCodec.Set {
		rules.DenseCodec = &clean.Codec{Type: s.CleanCodec.Codec, Level: s.CleanCodec.Level}
	}
	return rules
}

// envOf returns how a pass reaches the log, as long as that is of this lineage.
func (c *Cleaner) envOf(log *Log, lineage int64, state *cleanerState, work *shift) clean.Env {
	return clean.Env{
		OpenSidecar: func(ctx context.Context, s *segment.Segment,
			opts clean.SidecarOptions) (*keys.Reader,
			error) {
			return log.keysForPass(ctx, s, opts, c.makerOf(work))
		},
		Create: func(base int64) (*segment.Segment, error) {
			return segment.Create(log.env.fs, log.dir, base, cleanedSuffix, log.env.segments)
		},
		DeriveSidecar: func(base int64) (*keys.Derivation, error) {
			return keys.NewDerivation(log.env.fs,
				log.keysPath(base, keys.SpoolExtension, cleanedSuffix), base,
				*log.sidecars.salt.Load()), nil
		},
		SidecarName: func(base int64) string {
			return log.keysPath(base, keys.Extension,
				cleanedSuffix)
		},
		Replace: func(sources, cleaned []*segment.Segment) error {
			return log.replaceIn(lineage, sources, cleaned)
		},
		Producers: log.cleanProducers,
		SaveDead:  log.saveDead,
		FreeBytes: func() (uint64, error) { return log.env.fs.Free(log.dir) },
		Throttle: func(ctx context.Context, n int) error {
			if err := c.spend(ctx, n); err != nil {
				return err
			}
			return work.spent(ctx, n)
		},
		Compress: log.env.compress(siteClean),
		Report: func(p clean.PassProgress) {
			c.mu.Lock()
			defer c.mu.Unlock()
			state.progress = p
		},
	}
}

// spanShare of the retention time is how much longer than that a record may stay, because it shares
// a segment with younger ones.
const spanShare = 8

// spanMax is clean.Job.SpanMax of a topic: 0 unless retention deletes by time.
func spanMax(s topicconfig.Settings) time.Duration {
	if !s.Delete || s.RetentionTime <= 0 {
		return 0
	}
	return max(s.RetentionTime/spanShare, time.Millisecond)
}

// finish notes how a pass ended, and frees its worker. The pass's own sums go into the counters in
// the same moment as its progress is cleared: a scrape sees them once, never twice or not at all.
func (c *Cleaner) finish(state *cleanerState, seen look, stats clean.Stats, result string,
	err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.passes--
	c.mu.granted -= state.granted
	state.endPass(now, stats, result, err)
	state.cancel, state.progress, state.granted, state.trigger, state.ended = nil,
		clean.PassProgress{},
		0, "", now
	state.counters = state.counters.add(stats)
	if state.counters.runs == nil {
		state.counters.runs = map[string]int64{}
	}
	state.counters.runs[result]++
	switch result { // an aborted pass says nothing of the log: quarantine and last error stay
	case runSuccess, runNothingToDo:
		state.quarantine, state.oldest = quarantine{}, stats.OldestGarbage
		state.counters.lastSuccess, state.counters.lastError, state.counters.lastFailure = now, "",
			time.Time{}
		if stats.SegmentsTotal > 0 {
			state.estimate = estimate{
				looked: true, lineage: state.lineage, firstDirty: stats.CleanedTo, known: true,
				exact: true, bytes: stats.GarbageBytes,
			}
		}
	case runFailed:
		// The settings the pass ran with: if others came meanwhile, it is tried again at once.
		state.quarantine = state.quarantine.after(now, seen.config)
		state.counters.lastError, state.counters.lastFailure = err.Error(), now
	}
	c.awake()
}
