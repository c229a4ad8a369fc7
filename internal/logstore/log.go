package logstore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// What a Log's methods fail with, besides the errors of record.Validate.
var (
	// Read: below the log start or above the limit
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// Append: a batch never spans two segments
	ErrBatchTooLarge = errors.New("batch larger than a segment")
	// Append: the producer has a later epoch (KIP-98)
	ErrInvalidProducerEpoch = producer.ErrInvalidEpoch
	// Append: a batch before it is missing (KIP-98)
	ErrOutOfOrderSequence = producer.ErrOutOfOrderSequence
	// Append: a transaction that is not verified, or a write outside of the open one
	ErrInvalidTxnState = producer.ErrInvalidTxnState
	// AppendControl: a later coordinator has written a marker for the producer
	ErrCoordinatorFenced = producer.ErrCoordinatorFenced
	// Lead: a later leader was here
	ErrFencedLeaderEpoch = errors.New("fenced leader epoch")
	// the disk failed; wrapped with what failed
	ErrStorage = errors.New("storage error")
	// by Store.Close or Store.Release
	ErrClosed = errors.New("log is closed")
	// Append: after Follow, until Lead
	ErrFollows = errors.New("log follows another replica")
)

// Log is one partition's log: an ordered list of segments, the last of which is active. One append
// at a time; reads run beside it and beside roll, retention and cleaning, on an immutable snapshot
// of the segment list.
//
// Invariant: LogStart <= HighWatermark <= LogEnd, and LastStable <= HighWatermark.
type Log struct {
	id PartitionID
	// topic is behind a pointer because Store.adopt gives a name to a log whose directory had none.
	topic atomic.Pointer[TopicID]
	dir   string
	env   environment

	// config is replaced as a whole, under maintain. Who needs two settings that agree loads it
	// once.
	config atomic.Pointer[config]
	list   atomic.Pointer[segmentList] // nil once closed

	// logStart never falls. It is stored before a list that lacks what lies below it (dropFront).
	logStart atomic.Int64
	// highWatermark: logStart <= highWatermark <= logEnd at every moment. It is stored under
	// stable, and falls only by a truncation.
	highWatermark atomic.Int64
	stable        stability
	// logEnd is stored after the batch is in the segment: a reader that sees an offset below it
	// finds its batch.
	logEnd atomic.Int64
	// disk is how much of the log is synced, sealed and checkpointed.
	disk durability
	// unsynced is how many bytes were appended since a sync was asked for because of them.
	unsynced atomic.Int64
	// syncs counts commits and flushes that had something to sync, the seals of rolled segments
	// included; for the metrics only.
	syncs  syncMeter
	epochs leaderEpochs
	// files does the file operations on segments; snapshots are the producer snapshots beside them.
	files     segmentDir
	snapshots producerSnapshots
	// fault is why the log stopped, nil while it is well. It is set once.
	fault      atomic.Pointer[error]
	compaction Compaction

	// closed sums up the log as close left it, if it left it in order; Store.Close reads it after
	// close.
	closed checkpoint.ClosedLog

	// truncating is held over a truncation, before all other locks: one at a time.
	truncating sync.Mutex
	// lineage rises with each truncation: what was computed from the log before may not hold for
	// the log behind it.
	lineage atomic.Int64

	// maintain is held by whoever changes the front or the middle of the list on disk, or syncs.
	// See doc.go.
	maintain sync.Mutex
	// marked says that a segment at the front was marked as deleted, and the mark may not be
	// durable. maintain guards it.
	markUnsynced bool

	mu struct {
		sync.Mutex
		stopped error // why appends are refused for good; nil while the log is well
		// follows refuses what is not replicated: since Follow, until Lead.
		follows bool
		// producers is the state behind the last batch, as of logEnd.
		producers  producer.State
		appends    outage.State // of appends that fail and leave the log well: a full disk
		background outage.State // of flush, roll and retention
		// firstAppend is when the active segment got its first batch, as well as we know; zero
		// while it is empty.
		firstAppend time.Time
		// aborted is what the checkpoints are to hold of transaction indexes once the log is
		// closed.
		aborted    checkpoint.AbortedCounts
		truncation *pendingTruncation // the truncation that is under way; nil if none is
	}
}

// environment is what a log needs of its store.
type environment struct {
	fs       vfs.FS
	segments segment.Config // of all logs: they share the open files
	logger   *slog.Logger
	// failed is told, without waiting, that the log stopped.
	failed func(PartitionID, error)
	// saveCheckpoints writes cleaner-offset-checkpoint. It is Store.save, which takes Store.saving
	// and then Log.mu: its caller holds no lock of the log.
	saveCheckpoints func() error
	// compress returns what compresses, and measures it, at a site.
	compress func(site string) compress.Func
	// commit has a log synced soon, without waiting; flushBytes is after how many unsynced ones
	// that is asked for.
	commit     func(*Log)
	flushBytes int64
}

// config is a log's settings, with what follows from them. It is immutable: appends read it without
// a lock.
type config struct {
	settings topicconfig.Settings
	retain   bool // reclaim policy: the data stays when the topic goes
	// what record.Validate holds produced batches against; Compress is set for each append
	rules record.Rules
}

// decompressedBytesMax is how much a produced batch may hold decompressed, unless its topic allows
// larger messages: 64 MiB is far above what any client puts into a batch of 1 MiB, and bounds what
// a hostile one costs.
const decompressedBytesMax = 64 << 20

// newConfig derives the rules once, so that an append has nothing to work out.
func newConfig(s topicconfig.Settings, retain bool) *config {
	return &config{settings: s, retain: retain, rules: record.Rules{
		BytesMax:           s.MessageBytesMax,
		DecompressedMax:    max(decompressedBytesMax, s.MessageBytesMax),
		Compacted:          s.Compact,
		TimestampType:      s.TimestampType,
		TimestampBeforeMax: timestampMax(s.TimestampBeforeMax),
		TimestampAfterMax:  timestampMax(s.TimestampAfterMax),
		Codec:              s.Codec,
		CodecLevel:         s.CodecLevel,
		KeepCodec:          s.KeepCodec,
	}}
}

// timestampMax is a limit as record.Rules has it, where 0 is none: the least that counts is next to
// nothing.
func timestampMax(limit time.Duration) time.Duration {
	if limit == topicconfig.Unlimited {
		return 0
	}
	return max(limit, time.Nanosecond)
}

// indexes are the bounds of a new segment's index files. Segments that are there keep those they
// were begun with, or after a restart the defaults: an index with other gaps between its entries is
// read all the same. What the store was opened with goes before.
func (c *config) indexes(of segment.Config) segment.Config {
	if of.IndexIntervalBytes == 0 {
		// 0 would be the default; every batch has more than one byte
		of.IndexIntervalBytes = max(1, c.settings.IndexIntervalBytes)
	}
	if of.IndexBytesMax == 0 {
		of.IndexBytesMax = c.settings.SegmentIndexBytes
	}
	return of
}

// ID names the partition.
func (l *Log) ID() PartitionID { return l.id }

// TopicID is the id of the topic the log belongs to; zero if its directory did not say.
func (l *Log) TopicID() TopicID { return *l.topic.Load() }

// Retain tells whether the log's data is to be kept when its topic goes (reclaim policy). It
// outlives a restart, so that a topic deleted while this broker was away is treated as its owner
// wished.
func (l *Log) Retain() bool { return l.config.Load().retain }

// Settings returns the settings in effect.
func (l *Log) Settings() topicconfig.Settings { return l.config.Load().settings }

// Configure puts new settings into effect, from the next append and the next round of retention on.
// The same ones again change nothing.
//
// The settings are not kept on disk: after a restart a log is unconfigured until Store.Create. The
// reclaim policy is; that it cannot be written is only logged, and a restart then goes by the one
// before.
func (l *Log) Configure(s topicconfig.Settings, retain bool) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	old := l.config.Load()
	if old.settings == s && old.retain == retain || l.list.Load() == nil {
		return // closed: the directory may not be this log's any more
	}
	config := newConfig(s, retain)
	l.compaction.sidecars.enable(config.settings.Compact)
	l.config.Store(config)
	l.appended(config) // what is there already counts by the new durability now
	if old.retain == retain {
		return
	}
	if err := writePolicy(l.env.fs, l.dir, retain); err != nil {
		l.env.logger.Error("write the reclaim policy", "partition", l.id, "error", err)
	}
}

// Lead begins a leader epoch: appends stamp it. It fails with ErrFencedLeaderEpoch when an earlier
// one is asked for, with ErrStorage when the epoch cannot be made durable (it may be tried again),
// with ErrClosed when the log is closed. The epoch in effect again changes nothing.
func (l *Log) Lead(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.stopped != nil:
		return l.mu.stopped
	case epoch < l.epochs.latest():
		return fmt.Errorf("%w: asked to lead in epoch %d after %d", ErrFencedLeaderEpoch, epoch,
			l.epochs.latest())
	case epoch == l.epochs.latest():
		l.mu.follows = false
		return nil
	}
	// The file is written before any batch of the epoch is: a batch without its epoch in the file
	// would need a scan to mend.
	if err := l.epochs.save(l.epochs.load().Assign(epoch, l.logEnd.Load())); err != nil {
		return err
	}
	l.mu.follows = false
	return nil
}

// Follow ends that appends of producers and coordinators are taken; they fail with ErrFollows until
// the next Lead. An append that took its broker for the leader a moment ago would else be stamped
// with an epoch that belongs to another leader, and no replica could tell the two apart. When
// Follow returns, no such append is under way.
func (l *Log) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.follows = true
}

// LeaderEpoch returns the latest leader epoch that the log knows, -1 if there is none.
func (l *Log) LeaderEpoch() int32 { return l.epochs.latest() }

// EpochAt returns the leader epoch of an offset; -1 if it is not below LogEnd, or lies below all
// that is known of epochs.
func (l *Log) EpochAt(offset int64) int32 {
	if offset >= l.logEnd.Load() {
		return -1
	}
	return l.epochs.load().At(offset)
}

// LogStart is the first offset that may be read.
func (l *Log) LogStart() int64 { return l.logStart.Load() }

// LogEnd is the offset the next record gets.
func (l *Log) LogEnd() int64 { return l.logEnd.Load() }

// HighWatermark is the end of what consumers may see.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// AdvanceHighWatermark moves the high watermark up to offset (at most LogEnd) and tells whether it
// moved. It never moves down, so callers that overtake each other do no harm.
func (l *Log) AdvanceHighWatermark(offset int64) bool {
	// Under the lock that a truncation takes: the bound holds until the offset is stored.
	l.stable.Lock()
	defer l.stable.Unlock()
	offset = min(offset, l.logEnd.Load())
	if offset <= l.highWatermark.Load() {
		return false
	}
	l.highWatermark.Store(offset)
	l.stable.forget(offset)
	return true
}

// Stats is a log's state, for metrics and reports. Invariant: LogStart <= LastStable <=
// HighWatermark <= LogEnd.
type Stats struct {
	SizeBytes     int64 // of the data files, without indexes; 0 once the log is closed
	Segments      int   // the active one too; 0 once the log is closed
	LogStart      int64
	LogEnd        int64
	HighWatermark int64
	LastStable    int64
}

// Stats returns the log's state now.
func (l *Log) Stats() Stats {
	// In this order each offset is at most the next one, whatever moves meanwhile.
	stats := Stats{LogStart: l.LogStart(), LastStable: l.LastStable(),
		HighWatermark: l.HighWatermark(), LogEnd: l.LogEnd()}
	if list := l.acquire(); list != nil {
		defer list.release()
		stats.Segments = len(list.handles)
		stats.SizeBytes = list.sizeBytes()
	}
	return stats
}

// failLocked stops appends for good: memory and disk may differ, and only recovery can tell. Reads
// go on. Log.mu is held.
func (l *Log) failLocked(cause error) {
	if l.mu.stopped != nil {
		return
	}
	stopped := fmt.Errorf("%w: log stopped: %w", ErrStorage, cause)
	l.mu.stopped = stopped
	l.fault.Store(&stopped)
	l.env.logger.Error("log stopped", "partition", l.id, "error", cause)
	l.env.failed(l.id, stopped)
}

// Fault is why the log takes no appends any more (it wraps ErrStorage), nil while it is well; that
// it is closed is no fault. It takes no lock: who asks is a report, and must not wait for an append
// that waits for the disk.
func (l *Log) Fault() error {
	if fault := l.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// fail is failLocked for callers that do not hold Log.mu.
func (l *Log) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(cause)
}
