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
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/durability"
	"heartwood.dev/heartwood/internal/logstore/epochfile"
	"heartwood.dev/heartwood/internal/logstore/fault"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/reader"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/logstore/timestamps"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// Errors of the methods of Log, in addition to the errors of record.Validate. Each comment names
// the methods that return the error, and the reason.
var (
	// Read: the offset is below the log start or above the limit of the read
	ErrOffsetOutOfRange = reader.ErrOffsetOutOfRange
	// Append: the batch is larger than a segment, and a batch never spans two segments
	ErrBatchTooLarge = errors.New("batch larger than a segment")
	// Append: the log contains a later epoch of the producer (KIP-98)
	ErrInvalidProducerEpoch = producer.ErrInvalidEpoch
	// Append: an earlier batch of the producer is missing (KIP-98)
	ErrOutOfOrderSequence = producer.ErrOutOfOrderSequence
	// Append: the transaction was not verified, or the batch does not belong to the open
	// transaction
	ErrInvalidTxnState = producer.ErrInvalidTxnState
	// Append: the transaction may have ended since the verification guard was taken
	ErrVerificationOutdated = producer.ErrVerificationOutdated
	// AppendControl: a later coordinator has written a marker for the producer
	ErrCoordinatorFenced = producer.ErrCoordinatorFenced
	// Lead: the log already has a later leader epoch
	ErrFencedLeaderEpoch = errors.New("fenced leader epoch")
	// all methods: the disk failed; the error also wraps the cause
	ErrStorage = segmentlist.ErrStorage
	// all methods: the log was closed by Store.Close or Store.Release
	ErrClosed = segmentlist.ErrClosed
	// Append: the log is a follower, that is, between Follow and the next Lead
	ErrFollows = errors.New("log follows another replica")
)

// Slice is the result of a read; see package reader.
type Slice = reader.Slice

// TimestampOffset is the result of a search for a timestamp; see package timestamps.
type TimestampOffset = timestamps.Result

// Log is one partition's log: an ordered list of segments, the last of which is active. One append
// runs at a time. Reads run concurrently with appends, rolls, retention and cleaning, on an
// immutable snapshot of the segment list.
//
// Invariant: LogStart <= HighWatermark <= LogEnd, and LastStable <= HighWatermark.
type Log struct {
	id PartitionID
	// topic is an atomic pointer because Store.adopt sets the topic id later if the log's directory
	// contains no topic id.
	topic atomic.Pointer[TopicID]
	dir   string
	env   environment

	// config is replaced as a whole, under maintain. A caller that needs several consistent
	// settings loads it once.
	config atomic.Pointer[config]
	list   segmentlist.Current // empty once the log is closed

	offsets offsets.Offsets
	reader  reader.Reader
	// savedStart is the log start in the checkpoint on disk (Store.save).
	savedStart atomic.Int64
	// disk tracks how much of the log is synced, sealed and checkpointed.
	disk   durability.Disk
	epochs epochfile.File
	// files executes the file operations on segments. snapshots manages the producer snapshots in
	// the same directory.
	files      swap.Dir
	snapshots  snapshots.Files
	fault      fault.State
	notes      *datadir.Notes
	compaction compaction.Compaction

	// closed is a summary of the log, which the method close computes if it succeeds. Store.Close
	// reads the summary after close has returned.
	closed checkpoint.ClosedLog

	// truncating is held during a truncation. It is acquired before all other locks of the log.
	truncating sync.Mutex
	// truncations is the number of truncations since the log was opened. A result that was computed
	// before a truncation may not apply after the truncation. The number rises under Log.mu.
	truncations atomic.Int64

	// maintain is held while segments at the front or in the middle of the log are replaced or
	// deleted, and during a flush; see doc.go.
	maintain sync.Mutex

	mu struct {
		sync.Mutex
		// follows is true between Follow and the next Lead. Meanwhile the log only accepts
		// replicated batches.
		follows bool
		// producers is the producer state as of logEnd.
		producers producer.State
		// appends tracks outages of appends: failures that do not stop the log, such as a full
		// disk.
		appends    outage.State
		background outage.State // outages of flushes, rolls and retention
		// firstAppend is the time of the first append to the active segment; after a restart it may
		// be a later time. It is zero while the segment is empty.
		firstAppend time.Time
		// aborted is the number of aborted transactions in each segment, for the checkpoint. It is used
		// only after the log is closed; an open log computes the numbers from its segments.
		aborted    checkpoint.AbortedCounts
		truncation *pendingTruncation // the current truncation; nil if there is none
	}
}

// environment holds what a store provides to each of its logs.
type environment struct {
	fs       vfs.FS
	segments segment.Config // shared by all logs, like the open files
	logger   *slog.Logger
	failed   func(PartitionID, error) // see fault.State
	// saveCheckpoints is Store.save. It acquires Store.saving and then Log.mu, so its caller holds
	// no lock of the log.
	saveCheckpoints func() error
	// compress returns a compression function that updates the metrics of a site (package
	// compressmeter).
	compress func(site string) compress.Func
	// commit requests a sync of the log without waiting for it. The method appended calls commit if
	// more than flushBytes bytes are unsynced.
	commit     func(*Log)
	flushBytes int64
	reserved   *atomic.Bool           // Store.reserved
	refusal    *atomic.Pointer[error] // Store.refusal

	verification *atomic.Int32                    // Store.verification
	damaged      func(id PartitionID, base int64) // Options.Damaged
}

// config is a log's settings, with the values derived from them. It is immutable: appends read it
// without a lock.
type config struct {
	settings topicconfig.Settings
	retain   bool // reclaim policy: true if the data is kept when the topic is deleted
	// rules are the rules of record.Validate for produced batches. Each append adds Compress and
	// Keys.
	rules record.Rules
}

// newConfig derives the rules from the settings once, instead of in each append.
func newConfig(s topicconfig.Settings, retain bool) *config {
	return &config{settings: s, retain: retain, rules: record.Rules{
		BytesMax:           s.MessageBytesMax,
		DecompressedMax:    max(segmentlist.DecompressedBytesMax, s.MessageBytesMax),
		RecordMax:          recordMax(s.RecordBytesMax),
		Compacted:          s.Compact,
		TimestampType:      s.TimestampType,
		TimestampBeforeMax: timestampMax(s.TimestampBeforeMax),
		TimestampAfterMax:  timestampMax(s.TimestampAfterMax),
		Codec:              s.Codec,
		CodecLevel:         s.CodecLevel,
		KeepCodec:          s.KeepCodec,
	}}
}

// recordMax converts a limit to the convention of record.Rules, where 0 means no limit.
func recordMax(limit int) int {
	if limit == topicconfig.RecordBytesUnlimited {
		return 0
	}
	return limit
}

// timestampMax converts a limit to the convention of record.Rules, where 0 means no limit. A
// configured limit of 0 therefore becomes one nanosecond.
func timestampMax(limit time.Duration) time.Duration {
	if limit == topicconfig.Unlimited {
		return 0
	}
	return max(limit, time.Nanosecond)
}

// indexes returns the configuration of a new segment: base, completed with the index interval and
// index size from the topic's settings. Values that the store was opened with take precedence.
// Existing segments keep their values, or use the defaults after a restart, because an index can be
// read regardless of the interval between its entries.
func (c *config) indexes(base segment.Config) segment.Config {
	if base.IndexIntervalBytes == 0 {
		// 0 would mean the default interval, but the setting 0 requests an entry for each batch. An
		// interval of 1 byte has this effect, because every batch is larger than 1 byte.
		base.IndexIntervalBytes = max(1, c.settings.IndexIntervalBytes)
	}
	if base.IndexBytesMax == 0 {
		base.IndexBytesMax = c.settings.SegmentIndexBytes
	}
	return base
}

// ID returns the partition.
func (l *Log) ID() PartitionID { return l.id }

// TopicID returns the id of the log's topic; zero if the log's directory does not contain a topic
// id.
func (l *Log) TopicID() TopicID { return *l.topic.Load() }

// Notes returns the small files of the log that its replica writes.
func (l *Log) Notes() *datadir.Notes { return l.notes }

// Retain reports whether the log's data is kept when its topic is deleted (reclaim policy). The
// policy survives a restart, so it also applies to a topic that was deleted while this broker was
// down.
func (l *Log) Retain() bool { return l.config.Load().retain }

// Settings returns the settings in effect.
func (l *Log) Settings() topicconfig.Settings { return l.config.Load().settings }

// Configure applies new settings to all later appends and rounds of retention. Equal settings
// change nothing.
//
// The settings are not stored: after a restart the log deletes and cleans nothing until
// Store.Create configures it. The reclaim policy is stored. If storing it fails, Configure logs the
// failure, and a restart uses the old policy.
func (l *Log) Configure(s topicconfig.Settings, retain bool) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	old := l.config.Load()
	if old.settings == s && old.retain == retain || l.list.Load() == nil {
		return // if the log is closed, its directory may belong to another log
	}
	config := newConfig(s, retain)
	l.compaction.Sidecars.Enable(config.settings.Compact)
	l.config.Store(config)
	l.appended(config) // under Fsync, also sync the records that are already in the log
	if old.retain == retain {
		return
	}
	if err := datadir.WritePolicy(l.env.fs, l.dir, retain); err != nil {
		l.env.logger.Error("failed to write the reclaim policy", "partition", l.id, "error", err)
	}
}

// Lead starts a leader epoch. Later appends write this epoch into their batches. Lead fails with
// ErrFencedLeaderEpoch if the log has a later epoch, and with ErrClosed if the log is closed. If
// the epoch is already the current one, Lead only ends the effect of Follow.
//
// Lead does not access the disk. A crash may lose an epoch in which no batch was appended. The
// caller therefore needs another source for the epochs in which an earlier process was the leader
// (ADR 0252).
func (l *Log) Lead(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fault.StoppedLocked() != nil:
		return l.fault.StoppedLocked()
	case epoch < l.epochs.Latest():
		return fmt.Errorf("%w: lead in epoch %d after %d", ErrFencedLeaderEpoch, epoch,
			l.epochs.Latest())
	case epoch == l.epochs.Latest():
		l.mu.follows = false
		return nil
	}
	l.epochs.AssignLocked(epoch, l.offsets.LogEnd())
	l.mu.follows = false
	return nil
}

// Follow makes appends of producers and coordinators fail with ErrFollows until the next Lead.
// Otherwise an append that was routed to this broker while it was the leader could be stored later,
// with the leader epoch of another leader. Replicas could then not distinguish this batch from the
// other leader's batch. When Follow returns, no such append is running.
func (l *Log) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.follows = true
}

// LeaderEpoch returns the log's latest leader epoch, or -1 if the log has no leader epoch yet.
func (l *Log) LeaderEpoch() int32 { return l.epochs.Latest() }

// EpochAt returns the leader epoch of an offset. It returns -1 for an offset at or above LogEnd,
// and for an offset below the first known epoch.
func (l *Log) EpochAt(offset int64) int32 {
	if offset >= l.offsets.LogEnd() {
		return -1
	}
	return l.epochs.Load().At(offset)
}

// LogStart returns the first offset that may be read.
func (l *Log) LogStart() int64 { return l.offsets.LogStart() }

// LogEnd returns the offset of the next record.
func (l *Log) LogEnd() int64 { return l.offsets.LogEnd() }

// HighWatermark returns the offset below which consumers may read.
func (l *Log) HighWatermark() int64 { return l.offsets.HighWatermark() }

// AdvanceHighWatermark raises the high watermark to offset (at most LogEnd) and reports whether the
// high watermark has changed. It never lowers the high watermark, so callers may run concurrently
// in any order.
func (l *Log) AdvanceHighWatermark(offset int64) bool {
	return l.offsets.AdvanceHighWatermark(offset)
}

// Timestamps returns the search for records by their timestamps.
func (l *Log) Timestamps() timestamps.Search {
	return timestamps.Search{List: &l.list, Offsets: &l.offsets}
}

// Read returns complete batches below the offset limit; see package reader.
func (l *Log) Read(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	return l.reader.Read(offset, limit, bytesMax, wholeFirst)
}

// ReadReplica reads for another replica, up to the log end; see package reader.
func (l *Log) ReadReplica(offset int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	return l.reader.ReadReplica(offset, bytesMax, wholeFirst)
}

// ReadCommitted reads for read_committed consumers, up to the last stable offset; see package
// reader.
func (l *Log) ReadCommitted(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	return l.reader.ReadCommitted(offset, limit, bytesMax, wholeFirst)
}

// Stats is a snapshot of a log's state, for metrics and reports. Invariant: LogStart <= LastStable
// <= HighWatermark <= LogEnd.
type Stats struct {
	SizeBytes     int64 // size of the data files, without indexes; 0 once the log is closed
	Segments      int   // number of segments, including the active one; 0 once the log is closed
	LogStart      int64
	LogEnd        int64
	HighWatermark int64
	LastStable    int64
	// Syncs is the number of syncs, including seals of rolled segments. SyncTime is the total
	// duration of these syncs. Neither value ever falls.
	Syncs    int64
	SyncTime time.Duration
}

// Stats returns a snapshot of the log.
func (l *Log) Stats() Stats {
	// Each offset is read before the next higher one, so the order of the offsets holds even if
	// they advance meanwhile.
	stats := Stats{LogStart: l.LogStart(), LastStable: l.LastStable(),
		HighWatermark: l.HighWatermark(), LogEnd: l.LogEnd()}
	stats.Syncs, stats.SyncTime = l.disk.Syncs()
	if list := l.list.Acquire(); list != nil {
		defer list.Release()
		stats.Segments = len(list.Handles)
		stats.SizeBytes = list.SizeBytes()
	}
	return stats
}

// Fault returns the error that stopped the log, or nil while the log accepts appends. The error
// wraps ErrStorage. Closing a log is not a fault. Fault acquires no lock, because a report must not
// wait for an append that waits for the disk.
func (l *Log) Fault() error {
	return l.fault.Err()
}
