package logstore

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// PassOptions are the settings and the budget of one pass.
type PassOptions struct {
	// Settings apply to the whole pass, also if the log is configured meanwhile: a pass that
	// changed its rules half way would leave a log that matches neither set of rules.
	Settings *topicconfig.Settings
	Now      time.Time // the time that decides which tombstones are due; zero: the real time
	// Thorough ignores Settings.MaxGarbagePercent: the pass leaves no garbage.
	Thorough bool
	// DryRun stores no result: the first dirty offset and the horizon of the tombstones do not
	// change.
	DryRun bool

	MemoryBytes int64
	// Workers is the number of hash slices that Parallel resolves at once. Parallel calls do(0) to
	// do(n-1); nil: one after the other.
	Workers  int
	Parallel func(n int, do func(i int))
	Slot     SidecarSlot
	// Throttle is called with every n bytes read or written, and waits; nil: no limit.
	Throttle func(ctx context.Context, n int) error

	// Started is called when the pass has its view of the log. truncations is the number of
	// truncations (Compaction.Truncations) at the time of the view. Started may be nil.
	Started func(truncations int64)
	// Progress is called now and then; may be nil.
	Progress func(clean.PassProgress)
	// Run does the work; nil: clean.Run.
	Run func(ctx context.Context, job clean.Job) (clean.Stats, error)
}

// IsPassAborted reports whether a pass ended with err for a reason that is not a fault of the log:
// its segments were replaced or deleted meanwhile, or it was closed.
func IsPassAborted(err error) bool {
	return errors.Is(err, errSegmentsChanged) || errors.Is(err, ErrClosed)
}

// Pass compacts the log once and records the result. Replacements committed before an error stay. A
// pass that found a key sidecar wrong has rebuilt it, and is repeated once.
func (c *Compaction) Pass(ctx context.Context, opts PassOptions) (clean.Stats, error) {
	if err := ctx.Err(); err != nil {
		return clean.Stats{CleanedTo: c.firstDirty.Load()}, err
	}
	defer c.sidecars.trim()
	stats, truncations, err := c.passOnce(ctx, opts)
	if opts.DryRun {
		return stats, err
	}
	if errors.Is(err, clean.ErrSidecar) && ctx.Err() == nil {
		c.log.env.logger.Warn("key sidecar contradicts its segment; repeating the pass",
			"partition", c.log.id, "error", err)
		stats, truncations, err = c.passOnce(ctx, opts)
	}
	if err != nil {
		return stats, err
	}
	return stats, c.setCleaned(truncations, stats)
}

// passOnce runs the pass, and returns the number of truncations (Compaction.Truncations) at the
// time of its view of the log.
//
// The view is taken here, because the sections that the scheduler saw may be old: the bound may
// have risen since, and retention may have deleted segments. From here on the view holds references
// to its segments: their files stay until the release, whatever retention, a release of the log or
// a swap does, so a pass never reads a file of another segment. The pass cannot know whether the
// segments are still in the log when it replaces them; replaceIn checks that under Log.maintain and
// fails with errSegmentsChanged. The pass is then aborted, and the next one starts from the current
// segments.
func (c *Compaction) passOnce(ctx context.Context, opts PassOptions) (clean.Stats, int64, error) {
	now := opts.Now
	if now.IsZero() {
		now = time.Now()
	}
	v := c.view(now)
	defer v.release()
	if len(v.segments) == 0 { // the log was closed or truncated meanwhile
		return clean.Stats{CleanedTo: v.FirstDirty}, v.Truncations, nil
	}
	if opts.Started != nil {
		opts.Started(v.Truncations)
	}
	// The pass keeps the last batch of each producer as of the view. A crash must not lose that
	// batch: the producer's last batch would be one that the pass has removed, and a retry of it
	// would be appended again.
	if err := c.log.flush(); err != nil {
		return clean.Stats{CleanedTo: v.FirstDirty}, v.Truncations, err
	}
	salt := c.sidecars.salt.Load()
	if salt == nil {
		return clean.Stats{CleanedTo: v.FirstDirty}, v.Truncations, errNoKeys
	}
	job := clean.Job{
		LogStart: v.LogStart, FirstDirty: v.FirstDirty, Bound: v.Bound,
		AbortedAcrossBound: v.aborted, Lineage: c.epochBelow,
		Now: now, Rules: PassRules(opts.Settings),
		Limits: clean.Limits{MemoryBytes: opts.MemoryBytes, Workers: opts.Workers,
			Parallel: opts.Parallel},
		CleaningProgress: c.progress.forPass(), Producers: v.producers, Hasher: salt.Hasher(),
		Env: c.passEnv(v.Truncations, opts),
	}
	if opts.Thorough {
		job.Rules.MaxGarbagePercent = 0
	}
	for _, s := range v.segments {
		job.Sources = append(job.Sources, clean.Source{Segment: s, DeadFile: c.loadDead(s)})
	}
	run := clean.Run
	if opts.Run != nil {
		run = opts.Run
	}
	stats, err := run(ctx, job)
	return stats, v.Truncations, err
}

// PassRules returns the rules of a pass that follow from a topic's settings.
func PassRules(s *topicconfig.Settings) clean.Rules {
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

// spanShare limits how much longer than the retention time a record may stay because it shares a
// segment with younger ones: at most the retention time divided by spanShare.
const spanShare = 8

// spanMax returns clean.Rules.SpanMax of a topic: 0 unless retention deletes by time.
func spanMax(s *topicconfig.Settings) time.Duration {
	if !s.Delete || s.RetentionTime <= 0 {
		return 0
	}
	return max(s.RetentionTime/spanShare, time.Millisecond)
}

// passEnv returns the functions with which a pass works on the log. Its replacements fail once the
// number of truncations differs from the parameter truncations.
func (c *Compaction) passEnv(truncations int64, opts PassOptions) clean.Env {
	l := c.log
	env := clean.Env{
		OpenSidecar: func(ctx context.Context, s *segment.Segment,
			how clean.SidecarOptions) (*keys.Reader,
			error) {
			return c.keysForPass(ctx, s, how, opts.Slot)
		},
		Create: func(base int64) (*segment.Segment, error) {
			return segment.Create(l.env.fs, l.dir, base, cleanedSuffix, l.env.segments)
		},
		DeriveSidecar: func(base int64) (*keys.Derivation, error) {
			return keys.NewDerivation(l.env.fs,
				c.sidecars.path(base, keys.SpoolExtension, cleanedSuffix), base,
				*c.sidecars.salt.Load()), nil
		},
		SidecarName: func(base int64) string {
			return c.sidecars.path(base, keys.Extension, cleanedSuffix)
		},
		Replace: func(sources, cleaned []*segment.Segment) error {
			return l.replaceIn(truncations, sources, cleaned)
		},
		Producers: c.producers,
		SaveDead:  c.saveDead,
		FreeBytes: func() (uint64, error) { return l.env.fs.Free(l.dir) },
		Throttle:  opts.Throttle,
		Compress:  l.env.compress(siteClean),
		Report:    opts.Progress,
	}
	return env
}

// keysForPass opens or builds the sidecar of a segment. The pass counts and throttles the bytes.
func (c *Compaction) keysForPass(ctx context.Context, s *segment.Segment, how clean.SidecarOptions,
	slot SidecarSlot) (*keys.Reader, error) {
	if how.Rebuild {
		if err := c.sidecars.removeInvalid(ctx, s); err != nil {
			return nil, err
		}
	}
	reader, err := c.sidecars.openOrBuild(ctx, s, sidecarOptions{
		scanned: func(_ context.Context, n int) error { return how.LogRead(n) },
		Options: keys.Options{
			MemoryBytes: sidecarMemoryBytes,
			Throttle:    func(_ context.Context, n int) error { return how.SidecarWritten(n) },
		},
		slot: slot,
	})
	if errors.Is(err, keys.ErrTooManyRecords) {
		return nil, nil
	}
	return reader, err
}

// epochBelow returns the leader epoch of the record before an offset. It is the function
// clean.Job.Lineage.
func (c *Compaction) epochBelow(offset int64) uint64 { return uint64(c.log.EpochAt(offset - 1)) }

// producers returns the last batch of each active producer, which a pass keeps (I25).
func (c *Compaction) producers() map[int64]clean.Producer {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	last := c.log.mu.producers.LastBatches()
	all := make(map[int64]clean.Producer, len(last))
	for id, of := range last {
		all[id] = clean.Producer(of)
	}
	return all
}

// passView is the part of a log that a pass works on. The caller calls release when the pass is
// over.
//
// Invariant: every segment ends at or below Bound.
type passView struct {
	Sections
	segments  []*segment.Segment // [log start, Bound), ascending, never the active one
	producers map[int64]clean.Producer
	aborted   []segment.AbortedTxn // transactions that begin below Bound and end above it
	release   func()
}

// view returns a view of the log for a pass or an estimate. The view holds references to its
// segments. It first resets a first dirty offset that is outside the log.
func (c *Compaction) view(now time.Time) passView {
	c.ResetFirstDirty()
	// The number of truncations is loaded before the list: a truncation in between then makes the
	// view outdated, and its result is rejected.
	truncations := c.Truncations()
	list, limits := c.limits()
	if list == nil {
		return passView{release: func() {}}
	}
	// The view holds no segments above the bound, because a truncation above the bound would wait
	// for the pass.
	defer list.release()
	var v passView
	var cleanable []*handle
	v.Sections, cleanable = divide(list.handles, limits, c.Settings(), now)
	v.Truncations, v.TombstonesDue = truncations, c.tombstonesDue()
	v.segments, v.producers = segmentsOf(cleanable), c.producers()
	for _, h := range cleanable {
		h.acquire()
	}
	v.release = func() {
		for _, h := range cleanable {
			h.release()
		}
	}
	if err := v.findAborted(list.handles); err != nil {
		// Without the aborted transactions the pass could treat an aborted record as committed, so
		// nothing is cleaned. A consumer of the segment gets the same error.
		c.log.env.logger.Warn("failed to read aborted transactions; skipping the pass",
			"partition", c.log.id, "error", err)
		v.segments = nil
	}
	return v
}

// findAborted collects the aborted transactions that begin below the bound and end above it.
func (v *passView) findAborted(handles []*handle) error {
	for _, h := range handles {
		if h.Base() < v.Bound {
			continue
		}
		complete, err := h.Aborted(v.Bound, v.Bound,
			func(a segment.AbortedTxn) { v.aborted = append(v.aborted, a) })
		if err != nil || complete {
			return err
		}
	}
	return nil
}
