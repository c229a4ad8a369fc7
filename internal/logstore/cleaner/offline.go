package cleaner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// ErrUnkeyed is returned by CleanOffline when none of the records that it reads has a key: the log
// is not of a compacted topic, and nothing of it would be left.
var ErrUnkeyed = errors.New("no record has a key: this is no compacted topic's log")

// OfflineOptions of CleanOffline.
type OfflineOptions struct {
	MemoryBytes int64 // default 128 MiB
	Workers     int   // hash slices resolved at once; default 1
	IOBytesRate int64 // bytes read and written a second; 0: no limit
	// MinDirtyPercent is the largest dirty ratio with which no pass runs, unless a tombstone is
	// due; 0: a pass runs in any case.
	MinDirtyPercent    int
	MaxGarbagePercent  int           // garbage that a pass may leave to save I/O
	MinLag             time.Duration // segments with younger records are not compacted
	TombstoneRetention time.Duration
	SegmentBytes       int64 // of output segments; default: the size of the largest segment
	DryRun             bool  // report what would be removed, without rewriting anything
}

// OfflineResult has the sums of all passes of CleanOffline. SegmentsRewritten and SegmentsUntouched
// count the segments from before the first pass. For a dry run the result describes a pass that
// would not be dry; LogReadBytes and LogWrittenBytes are upper bounds then.
type OfflineResult struct {
	Passes int
	clean.Stats
}

// offlinePassesMax bounds the number of passes over one log. At most two are useful: one that finds
// a tombstone removable, and one that removes it if no retention is set.
const offlinePassesMax = 4

// CleanOffline runs passes over a log that no broker serves until nothing is left that may be
// removed now. Replacements that were committed before an error or the end of ctx stay.
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

// missing counts the segments that were rewritten. These are the segments that are no longer in the
// log, because neither appends nor retention run.
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

// settings returns the settings of a compacted topic, with the options applied.
func (o OfflineOptions) settings(log *logstore.Offline) topicconfig.Settings {
	s := topicconfig.Default()
	s.Delete, s.Compact = false, true
	s.MinLag, s.TombstoneRetention, s.SegmentBytes = o.MinLag, o.TombstoneRetention, o.SegmentBytes
	if s.SegmentBytes == 0 {
		s.SegmentBytes = max(log.SegmentBytesMax(), topicconfig.SegmentBytesMin)
	}
	return s
}

// passDue reports whether the first pass is due.
func (o OfflineOptions) passDue(view logView, now time.Time) bool {
	return o.MinDirtyPercent <= 0 || view.DirtyRatio()*100 > float64(o.MinDirtyPercent) ||
		view.TombstonesDue != logstore.TombstonesNone &&
			view.TombstonesDue != logstore.TombstonesUnknown &&
			view.TombstonesDue <= now.UnixMilli()
}

func (o OfflineOptions) passOptions(view logView, now time.Time,
	limit *ioLimit) logstore.PassOptions {
	workers := max(1, o.Workers)
	return logstore.PassOptions{
		Settings: view.settings, Now: now, DryRun: o.DryRun,
		MemoryBytes: Options{MemoryBytes: o.MemoryBytes}.withDefaults().MemoryBytes,
		Workers:     workers,
		Parallel:    func(n int, do func(int)) { parallel(n, workers, do) },
		Throttle:    limit.wait,
		Run:         o.run,
	}
}

// errDryRun ends a dry run where the first segment would be rewritten.
var errDryRun = errors.New("dry run")

// run runs a pass with the options that are not topic settings.
func (o OfflineOptions) run(ctx context.Context, job clean.Job) (clean.Stats, error) {
	job.Rules.MaxGarbagePercent = o.MaxGarbagePercent
	if !o.DryRun {
		refuseUnkeyed(&job)
		return clean.Run(ctx, job)
	}
	var last clean.PassProgress // the progress when the segments to be rewritten were known
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
	// A pass works in windows if the bitmaps of its records do not fit into half of the memory, and
	// a dry run ends in the first one.
	if needed := stats.RecordsRead * 3 / 8 * 2; err != nil && needed > job.Limits.MemoryBytes {
		return stats, fmt.Errorf(
			"a dry run over %d records needs %d bytes of memory; a clean does not",
			stats.RecordsRead, needed)
	}
	stats.ReclaimedBytes = last.ReclaimableBytes
	rewriting := max(0, last.TotalBytes-last.DoneBytes)
	if err == nil {
		rewriting = 0 // the pass created no segment: there is nothing to rewrite
	}
	would := last.Chosen
	stats.SegmentsRewritten, stats.RecordsRemoved = would.Segments, would.Records
	stats.TombstonesRemoved, stats.MarkersRemoved = would.Tombstones, would.Markers
	stats.LogReadBytes, stats.LogWrittenBytes = stats.LogReadBytes+rewriting, rewriting
	return stats, nil
}

// refuseUnkeyed ends a pass with ErrUnkeyed before it writes, if it has found records and none with
// a key. A pass opens all sidecars before it rewrites anything.
func refuseUnkeyed(job *clean.Job) {
	open, create := job.Env.OpenSidecar, job.Env.Create
	keyed, unkeyed := false, false
	job.Env.OpenSidecar = func(ctx context.Context, s *segment.Segment,
		opts clean.SidecarOptions) (*keys.Reader, error) {
		r, err := open(ctx, s, opts)
		switch {
		case err != nil:
		case r == nil || r.Counts().Entries() > 0 || r.Counts().Opaque > 0: // nil: not known
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

// add adds one pass.
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
