package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// ErrNoPartition is returned by OpenOffline for a directory that is not a partition's, or that
// holds what no log does.
var ErrNoPartition = errors.New("not the directory of a partition")

// ErrUnkeyed is returned by Clean when no record that it goes over has a key: such a log is no
// compacted topic's, and nothing would be left of it.
var ErrUnkeyed = errors.New("no record has a key: this is no compacted topic's log")

// metadataLog is the topic of Kafka's own metadata (KRaft), whose records have no keys, and which
// no cleaner of Kafka's touches.
const metadataLog = "__cluster_metadata"

// Offline is one partition of a data directory that no broker serves, open for cleaning by hand. It
// is a Store with one log and without goroutines: the directory is mended and the checkpoints are
// kept by the same code. The checkpoints go on telling what they knew of other partitions; nothing
// else outside the partition's directory is touched, but for the lock. The marker of a clean stop
// is left as it is: nothing is appended, and a start mends what was cut off whether it is there or
// not.
type Offline struct {
	store *Store
	log   *Log
	now   time.Time // the time at which passes run and producers expire
}

// OpenOffline locks the data directory that holds dir, and opens the log in it. vfs.ErrLocked is
// wrapped when a broker holds it.
//
// Nothing is scanned and nothing cut: a log whose end is damaged is refused, with the place, and a
// broker's start mends it. As there is nobody to ask, all of the log counts as replicated, unless
// the checkpoints know the partition, and say less.
//
// Passes run as if the time was now; the zero value is the clock's time. It is given here and not
// to Clean, because producers expire when the log is opened.
func OpenOffline(opts Options, dir string, now time.Time) (*Offline, error) {
	if now.IsZero() {
		now = time.Now()
	}
	opts.Dir = filepath.Dir(dir)
	id, err := offlineID(opts, dir)
	if err != nil {
		return nil, err
	}
	s := newStore(opts)
	if s.lock, err = opts.FS.Lock(filepath.Join(opts.Dir, lockFile)); err != nil {
		s.commits.close()
		return nil, fmt.Errorf("lock data directory %s: %w", opts.Dir, err)
	}
	o := &Offline{store: s, now: now}
	if o.log, err = s.openOffline(id, now); err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", dir, err), o.Close())
	}
	return o, nil
}

// offlineID checks that a directory is a partition's, and holds no link to anything outside of it.
func offlineID(opts Options, dir string) (id PartitionID, err error) {
	id, ok := parsePartition(filepath.Base(dir))
	if !ok {
		return id, fmt.Errorf("%w: %s: its name must be TOPIC-NUMBER", ErrNoPartition, dir)
	}
	if id.Topic == metadataLog {
		return id, fmt.Errorf("%w: %s: Kafka's metadata are not compacted", ErrNoPartition, dir)
	}
	siblings, err := opts.FS.ReadDir(opts.Dir)
	if err != nil {
		return id, fmt.Errorf("list %s: %w", opts.Dir, err)
	}
	for _, entry := range siblings {
		if entry.Name() == filepath.Base(dir) && !entry.IsDir() {
			return id, fmt.Errorf("%w: %s: it is a file or a link", ErrNoPartition, dir)
		}
	}
	entries, err := opts.FS.ReadDir(dir)
	if err != nil {
		return id, fmt.Errorf("list %s: %w", dir, err)
	}
	logs := 0
	for _, entry := range entries {
		if !entry.IsDir() && !entry.Type().IsRegular() {
			return id, fmt.Errorf("%w: %s is neither a file nor a directory", ErrNoPartition,
				filepath.Join(dir, entry.Name()))
		}
		if f, ok := parseSegmentFile(entry.Name()); ok && f.isLog() {
			logs++
		}
	}
	if logs == 0 {
		return id, fmt.Errorf("%w: %s: there is no .log file", ErrNoPartition, dir)
	}
	return id, nil
}

// openOffline opens the one log, as of now.
//
// Malformed checkpoints are rebuilt, as at the start of a broker. Without its high watermark or its
// recovery point it is unknown whether the partition was listed: then only what a checkpoint still
// says is replicated counts as replicated, and without the recovery point every segment is checked.
func (s *Store) openOffline(id PartitionID, now time.Time) (*Log, error) {
	checkpoints, malformed, err := s.loadCheckpoints()
	if err != nil {
		return nil, err
	}
	known, listed := checkpoints[id]
	delete(checkpoints, id)
	for other, saved := range checkpoints {
		s.mu.offline[other] = offline{saved: saved}
	}
	replicated := !listed || known.recoveryPoint == unknownOffset && known.highWatermark == 0
	if malformed[checkpoint.RecoveryPointFile] || malformed[checkpoint.HighWatermarkFile] {
		replicated = false
	}
	if !listed {
		known.recoveryPoint = unknownOffset
	}
	log, _, err := s.recover(id, start{saved: known, clean: true, now: now})
	if err != nil {
		return nil, err
	}
	s.mu.logs[id] = log
	if replicated {
		log.AdvanceHighWatermark(log.LogEnd())
	}
	checkFrom := known.recoveryPoint
	if malformed[checkpoint.RecoveryPointFile] {
		checkFrom = 0
	}
	if err := log.provePast(checkFrom); err != nil {
		return nil, err
	}
	if err := log.completeTxnIndexes(); err != nil {
		return nil, err
	}
	return log, s.save()
}

// provePast checks what the log holds behind the recovery point as a start does, but cuts nothing.
// It is sound then, and once it was synced the recovery point may pass it. Where there is none, it
// is the active segment that is checked; the others were sealed, and a pass holds each batch it
// reads against its checksum.
func (l *Log) provePast(recoveryPoint int64) error {
	list := l.acquire()
	defer list.release()
	active := list.active()
	for _, h := range list.handles {
		if h != active && (recoveryPoint == unknownOffset || h.NextOffset() <= recoveryPoint) {
			continue
		}
		err := h.Scan(0, func(position int64, b record.Batch) error {
			if err := b.CheckCRC(); err != nil {
				return fmt.Errorf("batch at %d: %w", position, err)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("check %s: %w", segment.Name(h.Base(), segment.LogExtension, ""), err)
		}
	}
	for _, h := range list.handles {
		if err := h.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// completeTxnIndexes makes the transaction indexes anew that were not copied along: without them a
// pass would take an aborted transaction whose marker lies above its bound for a committed one, and
// remove what was committed before it. An index that has entries is whole: a damaged one was mended
// when the log was opened.
func (l *Log) completeTxnIndexes() error {
	list := l.acquire()
	defer list.release()
	for i, h := range list.handles {
		if h.AbortedCount() > 0 {
			continue
		}
		control, err := hasControl(h)
		if err != nil {
			return fmt.Errorf("look for transactions in segment %d: %w", h.Base(), err)
		}
		if !control {
			continue
		}
		_, ended, err := stateAt(l, list.handles[:i+1], h.NextOffset(), h.Base())
		aborted := abortedOf(ended)
		if err == nil && len(aborted) > 0 {
			err = h.ResetAborted(aborted)
		}
		if err != nil {
			return fmt.Errorf("make the transaction index of segment %d: %w", h.Base(), err)
		}
	}
	return nil
}

// hasControl tells whether a segment has a transaction marker. It reads headers only.
func hasControl(h *handle) (bool, error) {
	for position := int64(0); ; {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil || header.Control() {
			return err == nil, err
		}
		position += int64(header.SizeBytes)
	}
}

// Close syncs the log, writes the checkpoints, and unlocks the data directory.
func (o *Offline) Close() error {
	s := o.store
	s.commits.close()
	var failed []error
	for _, log := range s.Logs() {
		failed = append(failed, log.close(), s.save())
	}
	return errors.Join(append(failed, s.lock.Close())...)
}

// ByHand says how a log is cleaned by hand.
type ByHand struct {
	MemoryBytes int64 // default 128 MiB
	Workers     int   // slices worked on at once; default 1
	IOBytesRate int64 // reads plus writes a second; 0: no limit
	// at or below it nothing is done, unless a tombstone is due; 0: in any case
	MinDirtyPercent    int
	MaxGarbagePercent  int           // what a pass may leave for the sake of I/O
	MinLag             time.Duration // a younger segment is not cleaned
	TombstoneRetention time.Duration
	SegmentBytes       int64 // of output; default: the size of the largest segment there is
	DryRun             bool  // rewrite nothing, and tell what would be
}

// Cleaned is what cleaning by hand did: the sums of its passes; of the segments there were at
// first, SegmentsRewritten and SegmentsUntouched say what became of each. Of a dry run, all of it
// is what a pass would do, LogReadBytes and LogWrittenBytes at most.
type Cleaned struct {
	Passes int
	clean.Stats
}

// passesByHandMax bounds the passes over one log. Two are the most that make sense: one that finds
// a tombstone alone, and one that takes it when no retention is asked for.
const passesByHandMax = 4

// Clean runs passes until nothing is left that may go now. What was committed before an error or
// the end of ctx stays.
func (o *Offline) Clean(ctx context.Context, by ByHand) (Cleaned, error) {
	cleaner := newCleaner(o.store, CleanerOptions{
		Workers: 1, MemoryBytes: by.MemoryBytes, IOBytesRate: by.IOBytesRate,
		Logger: o.store.opts.Logger,
	})
	o.log.Configure(o.settings(by), o.log.Retain())
	with := budget{memoryBytes: cleaner.options().MemoryBytes}
	before := o.sealed()
	var sum Cleaned
	for sum.Passes < passesByHandMax {
		seen := lookAt(o.log, o.now)
		if sum.Passes == 0 && !o.due(seen, by) {
			sum.SegmentsTotal, sum.SegmentsUntouched = len(before), len(before)
			break
		}
		seen.at, seen.run = o.now, by.run
		state := &cleanerState{log: o.log}
		var stats clean.Stats
		var err error
		if by.DryRun {
			stats, _, err = cleaner.cleanOnce(ctx, state, seen, with)
			o.log.trimSidecars()
		} else {
			stats, err = cleaner.clean(ctx, state, seen, with)
		}
		sum.add(stats)
		if !by.DryRun {
			sum.SegmentsRewritten = missing(before, o.sealed())
		}
		sum.SegmentsUntouched = max(0, sum.SegmentsTotal-sum.SegmentsRewritten)
		if err != nil {
			return sum, fmt.Errorf("clean %s: %w", o.log.dir, err)
		}
		if by.DryRun || stats.NextPass.IsZero() || stats.NextPass.After(o.now) {
			break
		}
	}
	return sum, nil
}

// sealed are the segments as they are now, without the active one. They are not held: only to tell
// which is which.
func (o *Offline) sealed() []*segment.Segment {
	list := o.log.acquire()
	defer list.release()
	all := make([]*segment.Segment, 0, len(list.handles))
	for _, h := range list.handles[:len(list.handles)-1] {
		all = append(all, h.Segment)
	}
	return all
}

// missing counts the segments that are not there any more. A clean appends nothing and no retention
// runs: they were rewritten.
func missing(before, now []*segment.Segment) (count int) {
	there := make(map[*segment.Segment]bool, len(now))
	for _, s := range now {
		there[s] = true
	}
	for _, s := range before {
		if !there[s] {
			count++
		}
	}
	return count
}

// settings are those of a compacted topic, as far as the flags do not say otherwise.
func (o *Offline) settings(by ByHand) topicconfig.Settings {
	s := topicconfig.Default()
	s.Delete, s.Compact = false, true
	s.MinLag, s.TombstoneRetention, s.SegmentBytes = by.MinLag, by.TombstoneRetention,
		by.SegmentBytes
	if s.SegmentBytes > 0 {
		return s
	}
	list := o.log.acquire()
	defer list.release()
	for _, h := range list.handles {
		s.SegmentBytes = max(s.SegmentBytes, h.SizeBytes(), topicconfig.SegmentBytesMin)
	}
	return s
}

// due reports whether there is a reason for a pass.
func (o *Offline) due(seen look, by ByHand) bool {
	return by.MinDirtyPercent <= 0 || seen.view.dirtyRatio()*100 > float64(by.MinDirtyPercent) ||
		seen.horizon != horizonNone && seen.horizon != horizonUnknown &&
			seen.horizon <= o.now.UnixMilli()
}

// errDryRun ends a dry run where the first segment would be rewritten.
var errDryRun = errors.New("dry run")

// run does a pass, with what a user says by hand and no topic's settings do.
func (by ByHand) run(ctx context.Context, job clean.Job) (clean.Stats, error) {
	job.Rules.MaxGarbagePercent = by.MaxGarbagePercent
	job.Limits.Workers = max(1, by.Workers)
	job.Limits.Parallel = func(n int, do func(int)) {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		inParallel(all, max(1, by.Workers), do)
	}
	if !by.DryRun {
		refuseUnkeyed(&job)
		return clean.Run(ctx, job)
	}
	var last clean.PassProgress // of the moment at which it was known what is rewritten
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
	// A pass goes window by window if the bits of its records do not fit half of the memory, and a
	// dry run sees the first only.
	if needed := stats.RecordsRead * 3 / 8 * 2; err != nil && needed > job.Limits.MemoryBytes {
		return stats, fmt.Errorf(
			"a dry run over %d records needs %d bytes of memory; a clean does not",
			stats.RecordsRead,
			needed,
		)
	}
	stats.ReclaimedBytes = last.ReclaimableBytes
	rewriting := max(0, last.TotalBytes-last.DoneBytes)
	if err == nil {
		rewriting = 0 // it came to its end without: there is nothing to rewrite
	}
	would := last.Chosen
	stats.SegmentsRewritten, stats.RecordsRemoved = would.Segments, would.Records
	stats.TombstonesRemoved, stats.MarkersRemoved = would.Tombstones, would.Markers
	stats.LogReadBytes, stats.LogWrittenBytes = stats.LogReadBytes+rewriting, rewriting
	return stats, nil
}

// refuseUnkeyed ends a pass before it writes, with ErrUnkeyed, if it has met records and none with
// a key. A pass opens all sidecars before it rewrites anything.
func refuseUnkeyed(job *clean.Job) {
	open, create := job.Env.OpenSidecar, job.Env.Create
	keyed, unkeyed := false, false
	job.Env.OpenSidecar = func(ctx context.Context, s *segment.Segment,
		opts clean.SidecarOptions) (*keys.Reader, error) {
		r, err := open(ctx, s, opts)
		switch {
		case err != nil:
		case r == nil || r.Counts().Entries() > 0 || r.Counts().Opaque > 0: // nil: nobody knows
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

// add takes in one more pass.
func (c *Cleaned) add(s clean.Stats) {
	c.Passes++
	if c.Passes == 1 {
		c.SegmentsTotal = s.SegmentsTotal
	}
	c.CleanedTo, c.TombstoneCleanOffset, c.NextPass, c.AwaitsReplicasAt = s.CleanedTo,
		s.TombstoneCleanOffset, s.NextPass, s.AwaitsReplicasAt
	c.GarbageBytes, c.GarbageRecords = s.GarbageBytes, s.GarbageRecords
	c.SidecarReadBytes += s.SidecarReadBytes
	c.SidecarWrittenBytes += s.SidecarWrittenBytes
	c.LogReadBytes += s.LogReadBytes
	c.LogWrittenBytes += s.LogWrittenBytes
	c.ReclaimedBytes += s.ReclaimedBytes
	c.RecordsRead += s.RecordsRead
	c.RecordsRemoved += s.RecordsRemoved
	c.TombstonesRemoved += s.TombstonesRemoved
	c.MarkersRemoved += s.MarkersRemoved
	c.SegmentsRewritten += s.SegmentsRewritten
	c.OpaqueBatches = max(c.OpaqueBatches, s.OpaqueBatches)
	c.MemoryPeakBytes = max(c.MemoryPeakBytes, s.MemoryPeakBytes)
}
