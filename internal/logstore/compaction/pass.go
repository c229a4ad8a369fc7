package compaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// PassOptions are the settings and the resource limits of one pass.
type PassOptions struct {
	// Settings apply to the whole pass, even if the log's settings change meanwhile. If a pass
	// changed its rules half way, the resulting log would match neither set of rules.
	Settings *topicconfig.Settings
	Now      time.Time // decides which tombstones may be removed; zero for the real time
	// Thorough makes the pass ignore Settings.MaxGarbagePercent and leave no garbage.
	Thorough bool
	// GarbageMax limits Settings.MaxGarbagePercent; 0 means no limit.
	GarbageMax int
	// DryRun makes Pass store no result: neither the first dirty offset nor the time from which a
	// tombstone may be removed changes.
	DryRun bool

	MemoryBytes int64
	// Workers is the number of hash slices that Parallel resolves concurrently. Parallel calls
	// do(0) to do(n-1). If Parallel is nil, the calls run one after the other.
	Workers  int
	Parallel func(n int, do func(i int))
	Slot     sidecars.Slot
	// Throttle is called before each read or write of n bytes, and may wait; nil means no limit.
	Throttle func(ctx context.Context, n int) error

	// Started is called after the pass has taken its view of the log. truncations is the number of
	// truncations (Compaction.Truncations) at that time. Started may be nil.
	Started func(truncations int64)
	// Progress is called from time to time. It may be nil.
	Progress func(clean.PassProgress)
	// Stage is called for each step of the rewrites. It may be nil.
	Stage func(clean.Step)
	// Run executes the pass; nil means clean.Run.
	Run func(ctx context.Context, job clean.Job) (clean.Stats, error)
}

// IsPassAborted reports whether err ended a pass for a reason that is not a fault of the log: the
// log's segments were replaced or deleted meanwhile, or the log was closed.
func IsPassAborted(err error) bool {
	return errors.Is(err, segmentlist.ErrChanged) || errors.Is(err, segmentlist.ErrClosed)
}

// Pass compacts the log once and stores the result. If it fails, the replacements that were already
// committed remain. If the pass finds a key sidecar that contradicts its segment, the pass rebuilds
// this sidecar, and Pass repeats the pass once.
func (c *Compaction) Pass(ctx context.Context, opts PassOptions) (clean.Stats, error) {
	if err := ctx.Err(); err != nil {
		return clean.Stats{CleanedTo: c.Progress.FirstDirty()}, err
	}
	if !opts.DryRun {
		if !c.Rewriting.TryLock() {
			return clean.Stats{CleanedTo: c.Progress.FirstDirty()},
				fmt.Errorf("%w: a segment is being repaired", segmentlist.ErrChanged)
		}
		defer c.Rewriting.Unlock()
	}
	defer c.Sidecars.Trim()
	defer c.pass.Store(nil)
	stats, basis, err := c.passOnce(ctx, opts)
	if opts.DryRun {
		return stats, err
	}
	if errors.Is(err, clean.ErrSidecar) && ctx.Err() == nil {
		c.env.Logger.Warn("key sidecar contradicts its segment; repeating the pass",
			"partition", c.env.ID, "error", err)
		stats, basis, err = c.passOnce(ctx, opts)
	}
	if err != nil {
		return stats, err
	}
	return stats, c.Progress.SetCleaned(basis, stats)
}

// passOnce runs the pass. It also returns the state of the log that the pass was based on.
//
// The view is taken here, because the sections that the scheduler used may be outdated: the
// cleanable bound may have risen, and retention may have deleted segments. The view holds
// references to its segments. The segments' files stay until the view is released, even if
// retention, Store.Release or a swap removes the segments from the log. So the pass never reads
// another segment's file by mistake.
//
// When the pass replaces segments, it does not know whether they are still in the log. replaceIn
// checks this under Log.maintain, and fails with segmentlist.ErrChanged if they are not. Then the
// pass is aborted, and the next pass starts from the current segments.
func (c *Compaction) passOnce(ctx context.Context, opts PassOptions) (clean.Stats, progress.Basis,
	error) {
	now := opts.Now
	if now.IsZero() {
		now = time.Now()
	}
	v := c.View(now)
	defer v.Release()
	basis := progress.Basis{Truncations: v.Truncations,
		LogStart: deletedBelow(v, c.env.SavedStart())}
	if v.damaged != nil { // a rewrite would remove the damaged batches, which can be repaired
		return clean.Stats{CleanedTo: v.FirstDirty}, basis, fmt.Errorf("%w: segment %d is damaged",
			segmentlist.ErrStorage, v.damaged.Base())
	}
	if len(v.Segments) == 0 { // the log was closed or truncated meanwhile
		return clean.Stats{CleanedTo: v.FirstDirty}, basis, nil
	}
	if opts.Started != nil {
		opts.Started(v.Truncations)
	}
	// The pass keeps only each producer's last batch as of the view. If a crash lost this batch,
	// the producer's last batch would be a batch that the pass has removed. A retry of the removed
	// batch would then be appended again.
	if err := c.env.Flush(); err != nil {
		return clean.Stats{CleanedTo: v.FirstDirty}, basis, err
	}
	salt := c.Sidecars.Salt.Load()
	if salt == nil {
		return clean.Stats{CleanedTo: v.FirstDirty}, basis, sidecars.ErrNoKeys
	}
	job := clean.Job{
		LogStart: basis.LogStart, FirstDirty: v.FirstDirty, Bound: v.Bound,
		AbortedAcrossBound: v.aborted, Lineage: c.env.EpochBelow,
		Now: now, Rules: PassRules(opts.Settings),
		Limits: clean.Limits{MemoryBytes: opts.MemoryBytes, Workers: opts.Workers,
			Parallel: opts.Parallel},
		CleaningProgress: c.Progress.ForPass(), Producers: v.producers, Hasher: salt.Hasher(),
		Env: c.passEnv(v.Sections, opts),
	}
	if opts.GarbageMax > 0 {
		job.Rules.MaxGarbagePercent = min(job.Rules.MaxGarbagePercent, opts.GarbageMax)
	}
	if opts.Thorough {
		job.Rules.MaxGarbagePercent = 0
	}
	for _, s := range v.Segments {
		job.Sources = append(job.Sources, clean.Source{Segment: s, DeadFile: c.Dead.Load(s)})
	}
	run := clean.Run
	if opts.Run != nil {
		run = opts.Run
	}
	stats, err := run(ctx, job)
	return stats, basis, err
}

// deletedBelow returns the offset below which a pass may remove records as deleted: the log start
// on disk. If the pass used a higher log start that exists only in memory, a crash would lower the
// log start again. The log would then contain older records of a key whose latest record the pass
// removed.
func deletedBelow(v View, savedStart int64) int64 {
	return min(v.LogStart, max(0, savedStart))
}

// PassRules returns the rules for a pass that a topic's settings define.
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

// spanShare limits the time by which a record may outlive the retention time because its segment
// also contains younger records. The limit is the retention time divided by spanShare.
const spanShare = 8

// spanMax returns clean.Rules.TimestampSpanMax for a topic: 0 unless retention deletes by time.
func spanMax(s *topicconfig.Settings) time.Duration {
	if !s.Delete || s.RetentionTime <= 0 {
		return 0
	}
	return max(s.RetentionTime/spanShare, time.Millisecond)
}

// passEnv returns the functions through which a pass accesses the log. Its function Replace fails
// if the log's number of truncations differs from the number in began, the sections at the start of
// the pass.
func (c *Compaction) passEnv(began Sections, opts PassOptions) clean.Env {
	env := clean.Env{
		OpenSidecar: func(ctx context.Context, s *segment.Segment,
			how clean.SidecarOptions) (*keys.Reader,
			error) {
			return c.keysForPass(ctx, s, how, opts.Slot)
		},
		Create: func(base int64) (*segment.Segment, error) {
			return segment.Create(c.env.FS, c.env.Dir, base, swap.CleanedSuffix, c.env.Segments)
		},
		DeriveSidecar: func(base int64) (*keys.Derivation, error) {
			return keys.NewDerivation(c.env.FS,
				c.Sidecars.Path(base, keys.SpoolExtension, swap.CleanedSuffix), base,
				*c.Sidecars.Salt.Load()), nil
		},
		SidecarName: func(base int64) string {
			return c.Sidecars.Path(base, keys.Extension, swap.CleanedSuffix)
		},
		Replace: func(sources, cleaned []*segment.Segment) error {
			if c.pass.Load() == nil {
				c.pass.Store(&runningPass{began.Bound, began.DirtyRatio()})
			}
			return c.env.Replace(began.Truncations, sources, cleaned)
		},
		Producers: c.env.Producers,
		SaveDead:  c.Dead.Save,
		FreeBytes: func() (uint64, error) { return c.env.FS.Free(c.env.Dir) },
		Throttle:  opts.Throttle,
		Compress:  c.env.Compress(),
		Report:    opts.Progress,
		Stage:     opts.Stage,
	}
	return env
}

// keysForPass opens or builds a segment's key sidecar. It returns nil if the segment has too many
// records for a sidecar. The pass counts and throttles the bytes that are read and written.
func (c *Compaction) keysForPass(ctx context.Context, s *segment.Segment, how clean.SidecarOptions,
	slot sidecars.Slot) (*keys.Reader, error) {
	if how.Rebuild {
		if err := c.Sidecars.RemoveInvalid(ctx, s); err != nil {
			return nil, err
		}
	}
	reader, err := c.Sidecars.OpenOrBuild(ctx, s, sidecars.Options{
		Scanned: func(_ context.Context, n int) error { return how.LogRead(n) },
		Options: keys.Options{
			MemoryBytes: sidecars.MemoryBytes,
			Throttle:    func(_ context.Context, n int) error { return how.SidecarWritten(n) },
		},
		Slot: slot,
	})
	if errors.Is(err, keys.ErrTooManyRecords) {
		return nil, nil
	}
	return reader, err
}

// View is the part of a log that a pass works on. The caller calls release after the pass.
//
// Invariant: every segment ends at or below Bound.
type View struct {
	Sections
	// Segments are the segments in [log start, Bound) in ascending order, never the active segment.
	Segments  []*segment.Segment
	producers map[int64]clean.Producer
	aborted   []segment.AbortedTxn // aborted transactions that begin below Bound and end above it
	Release   func()
	damaged   *segment.Segment // a segment in which damage was found; nil if there is none
}

// View returns a view of the log for a pass or an estimate. The View holds references to its
// segments. If the first dirty offset is outside the log, it is reset first.
func (c *Compaction) View(now time.Time) View {
	c.Progress.ResetFirstDirty()
	// The number of truncations is loaded before the segment list. If the log is truncated in
	// between, the view has an outdated number, so the result of the pass is rejected.
	truncations := c.Truncations()
	list, limits := c.limits()
	if list == nil {
		return View{Release: func() {}}
	}
	// The reference to the whole list is released at once. The view then holds no segment above the
	// bound, which a truncation above the bound would have to wait for.
	defer list.Release()
	var v View
	var cleanable []*segmentlist.Handle
	v.Sections, cleanable = divide(list.Handles, limits, c.Settings(), now)
	v.Truncations, v.TombstonesDue = truncations, c.Progress.TombstonesDue()
	v.Segments, v.producers = segmentlist.Segments(cleanable), c.env.Producers()
	for _, h := range cleanable {
		h.Acquire()
		if h.Damaged.Load() {
			v.damaged = h.Segment
		}
	}
	v.Release = func() {
		for _, h := range cleanable {
			h.Release()
		}
	}
	if err := v.findAborted(list.Handles); err != nil {
		// Without the list of aborted transactions, the pass could treat an aborted record as
		// committed, so it cleans nothing. A consumer that reads the segment gets the same error.
		c.env.Logger.Warn("failed to read aborted transactions; skipping the pass",
			"partition", c.env.ID, "error", err)
		v.Segments = nil
	}
	return v
}

// findAborted collects the aborted transactions that begin below the bound and end above the bound.
func (v *View) findAborted(handles []*segmentlist.Handle) error {
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
