package cleaner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// ErrUnkeyed is the error of CleanOffline for a log in which no record has a key. Such a log does
// not belong to a compacted topic, and compaction would remove all its records.
var ErrUnkeyed = errors.New("no record has a key: this is not the log of a compacted topic")

// OfflineOptions are the options of CleanOffline.
type OfflineOptions struct {
	MemoryBytes int64 // default 128 MiB
	Workers     int   // number of hash slices that run at once; default 1
	IOBytesRate int64 // bytes read and written per second; 0 for no limit
	// MinDirtyPercent is the dirty ratio up to which no pass runs, unless a tombstone can be
	// removed now. With 0 a pass always runs.
	MinDirtyPercent    float64
	MaxGarbagePercent  int           // percentage of garbage that a pass may leave to save I/O
	MinLag             time.Duration // segments with younger records are not compacted
	TombstoneRetention time.Duration
	SegmentBytes       int64 // size of output segments; default: the largest segment's size
	DryRun             bool  // true to report what would be removed, without rewriting anything
}

// OfflineResult contains the sums of all passes of CleanOffline. SegmentsRewritten and
// SegmentsUntouched are numbers of segments that existed before the first pass. The result of a dry
// run describes what a clean would do; LogReadBytes and LogWrittenBytes are then upper bounds.
type OfflineResult struct {
	Passes int
	clean.Stats
}

// offlinePassesMax is the maximum number of passes over one log. At most two passes are useful: the
// first may find that a tombstone is removable, and if there is no retention, the second removes
// the tombstone.
const offlinePassesMax = 4

// CleanOffline runs passes over a log that no broker uses, until nothing more can be removed now.
// Rewrites that were committed before an error or the end of ctx remain.
func CleanOffline(ctx context.Context, log *logstore.Offline,
	opts OfflineOptions) (OfflineResult, error) {
	var limit ioLimit
	limit.set(opts.IOBytesRate)
	log.Configure(opts.settings(log))
	before := log.Sealed()
	var sum OfflineResult
	for sum.Passes < offlinePassesMax {
		view := viewOf(log.Compaction(), log.Now())
		if sum.Passes == 0 && !opts.passDue(view, log.Now()) {
			sum.SegmentsTotal, sum.SegmentsUntouched = len(before), len(before)
			break
		}
		stats, err := log.Compaction().Pass(ctx, opts.passOptions(view, log.Now(), &limit))
		sum.add(stats)
		if !opts.DryRun {
			sum.SegmentsRewritten = missing(before, log.Sealed())
		}
		sum.SegmentsUntouched = max(0, sum.SegmentsTotal-sum.SegmentsRewritten)
		if err != nil {
			return sum, fmt.Errorf("clean %s: %w", log.Dir(), err)
		}
		if opts.DryRun || stats.NextPass.IsZero() || stats.NextPass.After(log.Now()) {
			break
		}
	}
	return sum, nil
}

// missing returns the number of segments that are in before but not in now. These segments were
// rewritten, because neither appends nor retention run.
func missing(before, now []*segment.Segment) (count int) {
	present := make(map[*segment.Segment]bool, len(now))
	for _, s := range now {
		present[s] = true
	}
	for _, s := range before {
		if !present[s] {
			count++
		}
	}
	return count
}

// settings returns the settings of a compacted topic, changed by the options that correspond to
// topic settings.
func (o OfflineOptions) settings(log *logstore.Offline) topicconfig.Settings {
	s := topicconfig.Default()
	s.Delete, s.Compact = false, true
	s.MinLag, s.TombstoneRetention, s.SegmentBytes = o.MinLag, o.TombstoneRetention, o.SegmentBytes
	if s.SegmentBytes == 0 {
		s.SegmentBytes = max(log.SegmentBytesMax(), topicconfig.SegmentBytesMin)
	}
	return s
}

// passDue reports whether the options require a first pass.
func (o OfflineOptions) passDue(view logView, now time.Time) bool {
	return o.MinDirtyPercent <= 0 || view.DirtyRatio()*100 > o.MinDirtyPercent ||
		view.TombstonesDue != progress.TombstonesNone &&
			view.TombstonesDue != progress.TombstonesUnknown &&
			view.TombstonesDue <= now.UnixMilli()
}

func (o OfflineOptions) passOptions(view logView, now time.Time,
	limit *ioLimit) compaction.PassOptions {
	workers := max(1, o.Workers)
	return compaction.PassOptions{
		Settings: view.settings, Now: now, DryRun: o.DryRun,
		MemoryBytes: Options{MemoryBytes: o.MemoryBytes}.withDefaults().MemoryBytes,
		Workers:     workers,
		Parallel:    func(n int, do func(int)) { parallel(n, workers, do) },
		Throttle:    limit.wait,
		Run:         o.run,
	}
}

// errDryRun ends a dry run when a clean would create its first segment.
var errDryRun = errors.New("dry run")

// run runs a pass with the options that do not correspond to topic settings. In a dry run it ends
// the pass before the pass writes anything, and estimates what a clean would do.
func (o OfflineOptions) run(ctx context.Context, job clean.Job) (clean.Stats, error) {
	job.Rules.MaxGarbagePercent = o.MaxGarbagePercent
	if !o.DryRun {
		refuseUnkeyed(&job)
		return clean.Run(ctx, job)
	}
	var last clean.PassProgress // last progress after the pass has chosen the segments to rewrite
	job.Env.Report = func(p clean.PassProgress) {
		if p.Phase == clean.Rewriting && p.Measured {
			last = p
		}
	}
	job.Env.Create = func(int64) (*segment.Segment, error) { return nil, errDryRun }
	refuseUnkeyed(&job)
	job.Env.SaveDead = func(*segment.Segment, []byte) error { return nil }
	stats, err := clean.Run(ctx, job)
	if err != nil && !errors.Is(err, errDryRun) {
		return stats, err
	}
	// A pass divides the log into windows if the bitmaps do not fit into half of the memory. A dry
	// run ends in the first window, so its result would be incomplete.
	if needed := stats.RecordsRead * 3 / 8 * 2; err != nil && needed > job.Limits.MemoryBytes {
		return stats, fmt.Errorf(
			"a dry run over %d records needs %d bytes of memory; a clean does not",
			stats.RecordsRead, needed)
	}
	stats.ReclaimedBytes = last.ReclaimableBytes
	would := last.Chosen
	stats.SegmentsRewritten, stats.RecordsRemoved = would.Segments, would.Records
	stats.TombstonesRemoved, stats.MarkersRemoved = would.Tombstones, would.Markers
	stats.LogReadBytes, stats.LogWrittenBytes = stats.LogReadBytes+would.Bytes, would.Bytes
	return stats, nil
}

// refuseUnkeyed makes a pass fail with ErrUnkeyed, before it writes anything, if it has found
// records but no record with a key. At that time the pass has seen all records, because it opens
// all sidecars before it rewrites a segment.
func refuseUnkeyed(job *clean.Job) {
	open, create := job.Env.OpenSidecar, job.Env.Create
	keyed, unkeyed := false, false
	job.Env.OpenSidecar = func(ctx context.Context, s *segment.Segment,
		opts clean.SidecarOptions) (*keys.Reader, error) {
		r, err := open(ctx, s, opts)
		switch {
		case err != nil:
		case r == nil || r.Counts().Entries() > 0 || r.Counts().Opaque > 0: // nil: keys unknown
			keyed = true
		case !keyed:
			for batches := r.Batches(); !unkeyed && batches.Next(); {
				b := batches.Batch()
				unkeyed = b.Records > 0 && b.Marker == keys.NoMarker
			}
		}
		return r, err
	}
	job.Env.Create = func(base int64) (*segment.Segment, error) {
		if unkeyed && !keyed {
			return nil, ErrUnkeyed
		}
		return create(base)
	}
}

// add adds the statistics of one pass to the result.
func (r *OfflineResult) add(s clean.Stats) {
	r.Passes++
	if r.Passes == 1 {
		r.SegmentsTotal = s.SegmentsTotal
	}
	r.CleanedTo, r.TombstoneCleanOffset, r.NextPass, r.AwaitsReplicasAt = s.CleanedTo,
		s.TombstoneCleanOffset, s.NextPass, s.AwaitsReplicasAt
	r.GarbageBytes, r.GarbageRecords = s.GarbageBytes, s.GarbageRecords
	r.SidecarReadBytes += s.SidecarReadBytes
	r.SidecarWrittenBytes += s.SidecarWrittenBytes
	r.LogReadBytes += s.LogReadBytes
	r.LogWrittenBytes += s.LogWrittenBytes
	r.ReclaimedBytes += s.ReclaimedBytes
	r.RecordsRead += s.RecordsRead
	r.RecordsRemoved += s.RecordsRemoved
	r.TombstonesRemoved += s.TombstonesRemoved
	r.MarkersRemoved += s.MarkersRemoved
	r.SegmentsRewritten += s.SegmentsRewritten
	r.OpaqueBatches = max(r.OpaqueBatches, s.OpaqueBatches)
	r.MemoryPeakBytes = max(r.MemoryPeakBytes, s.MemoryPeakBytes)
}
