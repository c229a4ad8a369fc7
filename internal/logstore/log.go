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

// Errors of a Log's methods, besides those of record.Validate.
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
	// Lead: there was a later leader
	ErrFencedLeaderEpoch = errors.New("fenced leader epoch")
	// the disk failed; wrapped with the cause
	ErrStorage = errors.New("storage error")
	// after Store.Close or Store.Release
	ErrClosed = errors.New("log is closed")
	// Append: between Follow and the next Lead
	ErrFollows = errors.New("log follows another replica")
)

// Log is one partition's log: an ordered list of segments, the last of which is active. One append
// runs at a time; reads run concurrently with it and with roll, retention and cleaning, on an
// immutable snapshot of the segment list.
//
// Invariant: LogStart <= HighWatermark <= LogEnd, and LastStable <= HighWatermark.
type Log struct {
	id PartitionID
	// topic is behind a pointer because Store.adopt sets the topic id of a log whose directory had
	// none.
	topic atomic.Pointer[TopicID]
	dir   string
	env   environment

	// config is replaced as a whole, under maintain. Callers that need two consistent settings load
	// it once.
	config atomic.Pointer[config]
	list   atomic.Pointer[segmentList] // nil once closed

	// logStart never falls, except by a truncation. It is stored before the list without the
	// segments below it is published (frontDeletion.publish).
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
	// unsynced is the number of bytes appended since the last sync request that the number of
	// unsynced bytes caused.
	unsynced atomic.Int64
	// syncs counts commits and flushes that had something to sync, including the seals of rolled
	// segments. Only the metrics use it.
	syncs  syncMeter
	epochs leaderEpochs
	// files does the file operations on segments; snapshots are the producer snapshots beside them.
	files     segmentDir
	snapshots producerSnapshots
	// fault is the error that stopped the log, nil while it works. It is set once.
	fault      atomic.Pointer[error]
	compaction Compaction

	// closed describes the log as an orderly close left it; Store.Close reads it after close.
	closed checkpoint.ClosedLog

	// truncating is held during a truncation, and acquired before all other locks.
	truncating sync.Mutex
	// truncations is the number of truncations since the log was opened. A result that was computed
	// before a truncation may not apply after the truncation. The number rises under Log.mu.
	truncations atomic.Int64

	// maintain is held while segments at the front or in the middle of the log are replaced or
	// deleted, and during a flush; see doc.go.
	maintain sync.Mutex

	mu struct {
		sync.Mutex
		stopped error // the error with which all appends are rejected; nil while the log works
		// follows is true between Follow and the next Lead: appends that are not replicated are
		// rejected.
		follows bool
		// producers is the state as of logEnd.
		producers  producer.State
		appends    outage.State // of appends that fail without stopping the log, as on a full disk
		background outage.State // of flush, roll and retention
		// firstAppend is the time at which the active segment got its first batch; after a restart
		// it may be later than that. Zero while the segment is empty.
		firstAppend time.Time
		// aborted is the part of the checkpoints about transaction indexes. It is used once the log
		// is closed.
		aborted    checkpoint.AbortedCounts
		truncation *pendingTruncation // the truncation that is under way; nil if none is
	}
}

// environment holds the dependencies that a log gets from its store.
type environment struct {
	fs       vfs.FS
	segments segment.Config // of all logs: they share the open files
	logger   *slog.Logger
	// failed reports that the log stopped; it does not block.
	failed func(PartitionID, error)
	// saveCheckpoints is Store.save, which acquires Store.saving and then Log.mu: its caller holds
	// no lock of the log.
	saveCheckpoints func() error
	// compress returns a compression function that records metrics for a site.
	compress func(site string) compress.Func
	// commit requests a sync of the log soon, without waiting; flushBytes is the number of unsynced
	// bytes that causes such a request.
	commit     func(*Log)
	flushBytes int64
}

// config is a log's settings, with the values derived from them. It is immutable: appends read it
// without a lock.
type config struct {
	settings topicconfig.Settings
	retain   bool // reclaim policy: the data stays when the topic is deleted
	// rules are those of record.Validate for produced batches; Compress is set for each append
	rules record.Rules
}

// decompressedBytesMax bounds the decompressed size of a produced batch, unless its topic allows
// larger messages: 64 MiB is far above what any client puts into a batch of 1 MiB, and bounds the
// cost of a hostile one.
const decompressedBytesMax = 64 << 20

// newConfig computes the rules once, so that appends need not.
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

// timestampMax converts a limit to the form of record.Rules, where 0 means no limit: a configured
// limit of 0 becomes one nanosecond.
func timestampMax(limit time.Duration) time.Duration {
	if limit == topicconfig.Unlimited {
		return 0
	}
	return max(limit, time.Nanosecond)
}

// indexes returns the size limit and interval of a new segment's index files. Existing segments
// keep their values, or use the defaults after a restart: an index with another interval between
// its entries can be read as well. The values with which the store was opened take precedence.
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

// ID returns the partition.
func (l *Log) ID() PartitionID { return l.id }

// TopicID returns the id of the log's topic; zero if its directory has none.
func (l *Log) TopicID() TopicID { return *l.topic.Load() }

// Retain reports whether the log's data is kept when its topic is deleted (reclaim policy). The
// reclaim policy survives a restart, so it also applies to a topic that was deleted while this
// broker was down.
func (l *Log) Retain() bool { return l.config.Load().retain }

// Settings returns the settings in effect.
func (l *Log) Settings() topicconfig.Settings { return l.config.Load().settings }

// Configure puts new settings into effect, from the next append and the next round of retention on.
// Equal settings change nothing.
//
// Settings are not stored: after a restart a log is unconfigured until Store.Create. The reclaim
// policy is stored; if that fails, the failure is logged, and a restart uses the old policy.
func (l *Log) Configure(s topicconfig.Settings, retain bool) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	old := l.config.Load()
	if old.settings == s && old.retain == retain || l.list.Load() == nil {
		return // the log is closed, and its directory may belong to another log
	}
	config := newConfig(s, retain)
	l.compaction.sidecars.enable(config.settings.Compact)
	l.config.Store(config)
	l.appended(config) // the new durability also applies to the records that are already in the log
	if old.retain == retain {
		return
	}
	if err := writePolicy(l.env.fs, l.dir, retain); err != nil {
		l.env.logger.Error("failed to write the reclaim policy", "partition", l.id, "error", err)
	}
}

// Lead starts a leader epoch, which appends then write into their batches. It fails with
// ErrFencedLeaderEpoch for an earlier epoch, with ErrStorage when the epoch cannot be made durable
// (the caller may try again), with ErrClosed when the log is closed. Calling Lead again with the
// current epoch changes nothing.
func (l *Log) Lead(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.stopped != nil:
		return l.mu.stopped
	case epoch < l.epochs.latest():
		return fmt.Errorf("%w: lead in epoch %d after %d", ErrFencedLeaderEpoch, epoch,
			l.epochs.latest())
	case epoch == l.epochs.latest():
		l.mu.follows = false
		return nil
	}
	// The file is written before any batch of the epoch: for a batch without its epoch in the file,
	// recovery would have to scan.
	if err := l.epochs.save(l.epochs.load().Assign(epoch, l.logEnd.Load())); err != nil {
		return err
	}
	l.mu.follows = false
	return nil
}

// Follow makes appends of producers and coordinators fail with ErrFollows until the next Lead.
// Otherwise an append that has just been routed to this broker as the leader would be stamped with
// an epoch that belongs to another leader, and no replica could tell the two apart. When Follow
// returns, no such append is running.
func (l *Log) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.follows = true
}

// LeaderEpoch returns the latest leader epoch that the log knows, -1 if there is none.
func (l *Log) LeaderEpoch() int32 { return l.epochs.latest() }

// EpochAt returns the leader epoch of an offset; -1 if it is not below LogEnd, or below all known
// epochs.
func (l *Log) EpochAt(offset int64) int32 {
	if offset >= l.logEnd.Load() {
		return -1
	}
	return l.epochs.load().At(offset)
}

// LogStart returns the first offset that may be read.
func (l *Log) LogStart() int64 { return l.logStart.Load() }

// LogEnd returns the offset of the next record.
func (l *Log) LogEnd() int64 { return l.logEnd.Load() }

// HighWatermark returns the end of what consumers may read.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// AdvanceHighWatermark raises the high watermark to offset (at most LogEnd) and reports whether it
// moved. It never lowers the high watermark, so callers may run concurrently in any order.
func (l *Log) AdvanceHighWatermark(offset int64) bool {
	// The lock excludes a truncation, so the log end cannot fall before the offset is stored.
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

// Stats is a snapshot of a log, for metrics and reports. Invariant: LogStart <= LastStable <=
// HighWatermark <= LogEnd.
type Stats struct {
	SizeBytes     int64 // of the data files, without indexes; 0 once the log is closed
	Segments      int   // including the active one; 0 once the log is closed
	LogStart      int64
	LogEnd        int64
	HighWatermark int64
	LastStable    int64
}

// Stats returns a snapshot of the log.
func (l *Log) Stats() Stats {
	// Read in this order, each offset is at most the next one even if offsets move meanwhile.
	stats := Stats{LogStart: l.LogStart(), LastStable: l.LastStable(),
		HighWatermark: l.HighWatermark(), LogEnd: l.LogEnd()}
	if list := l.acquire(); list != nil {
		defer list.release()
		stats.Segments = len(list.handles)
		stats.SizeBytes = list.sizeBytes()
	}
	return stats
}

// failLocked stops appends for good: the state in memory may differ from the disk, and only
// recovery can reconcile the two. Reads continue. Log.mu is held.
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

// Fault returns the error (it wraps ErrStorage) because of which the log accepts no more appends,
// nil while the log works. Closing a log is not a fault. It acquires no lock, so reports need not
// wait for an append that waits for the disk.
func (l *Log) Fault() error {
	if fault := l.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// fail does the same as failLocked, for callers that do not hold Log.mu.
func (l *Log) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(cause)
}
