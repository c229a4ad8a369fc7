// Package report defines the JSON with which a broker reports on its partition replicas over HTTP
// (GET /api/v1/partitions). A report contains the same values as the broker's metrics, in one row
// for each replica. The operator reads the reports for the status of Topics, and the web page of
// heartwood dev shows them.
package report

// Partitions is the response of GET /api/v1/partitions.
type Partitions struct {
	Partitions []Partition `json:"partitions"`
}

// Partition is one partition replica on one broker. Sizes are bytes, times are Unix seconds.
type Partition struct {
	Broker           int32  `json:"broker"`
	Topic            string `json:"topic"`
	Partition        int32  `json:"partition"`
	Leader           bool   `json:"leader"`
	LeaderEpoch      int32  `json:"leaderEpoch"`
	SizeBytes        int64  `json:"sizeBytes"`
	Segments         int    `json:"segments"`
	LogStartOffset   int64  `json:"logStartOffset"`
	LogEndOffset     int64  `json:"logEndOffset"`
	HighWatermark    int64  `json:"highWatermark"`
	LastStableOffset int64  `json:"lastStableOffset"`
	// ProducedBytes is the number of bytes that this replica has appended for producers since the
	// broker started.
	ProducedBytes int64 `json:"producedBytes"`
	// Fault is the reason why this replica is unavailable, such as a failed disk. It is absent if the
	// replica is available.
	Fault string `json:"fault,omitempty"`

	// OpenTransactions is the number of transactions that have records but no marker in the log.
	// OldestTransaction is the open transaction with the lowest offset; it is absent if no transaction
	// is open.
	OpenTransactions  int          `json:"openTransactions"`
	OldestTransaction *Transaction `json:"oldestTransaction,omitempty"`

	// Compaction is absent if the topic is not compacted.
	Compaction *Compaction `json:"compaction,omitempty"`
}

// Transaction is an open transaction in the log of one partition replica. Until the transaction
// ends, consumers with read_committed receive no record from FirstOffset on, and the cleaner
// removes none of these records.
type Transaction struct {
	ProducerID  int64 `json:"producerId"`
	Epoch       int16 `json:"epoch"`
	FirstOffset int64 `json:"firstOffset"`
	// Since is the time at which the transaction's first batch was written. After a restart of the
	// broker, it can be the time of a later batch.
	Since float64 `json:"sinceTimestampSeconds"`
	// Hanging is true if no transaction coordinator will end the transaction. The partition's leader
	// checks this once a minute.
	Hanging bool `json:"hanging"`
	// TransactionalID is the producer's transactional id. Until is the time at which the coordinator
	// aborts the transaction. Both are absent until the id's coordinator has reported.
	TransactionalID string   `json:"transactionalId,omitempty"`
	Until           *float64 `json:"untilTimestampSeconds,omitempty"`
}

// Compaction is the cleaner's report on one partition replica.
type Compaction struct {
	CleanBytes int64 `json:"cleanBytes"`
	DirtyBytes int64 `json:"dirtyBytes"`
	// DirtyRatio is dirty / (clean + dirty), 0..1, as defined by Kafka.
	DirtyRatio float64 `json:"dirtyRatio"`
	// BlockedBytes is the number of bytes that cannot be cleaned now, by reason: active_segment,
	// min_lag, open_transaction, unreplicated, quarantined.
	BlockedBytes map[string]int64 `json:"blockedBytes"`
	// ReclaimableBytes is the number of bytes that a pass would free if it removed all garbage below
	// the cleanable bound. It is absent while unknown. ReclaimableExact is true if a pass has measured
	// ReclaimableBytes and nothing has been appended since then; otherwise the value is an estimate.
	ReclaimableBytes *int64 `json:"reclaimableBytes,omitempty"`
	ReclaimableExact bool   `json:"reclaimableExact"`
	// GarbageRatio is ReclaimableBytes / (clean + dirty), 0..1; absent if ReclaimableBytes is
	// absent.
	GarbageRatio *float64 `json:"garbageRatio,omitempty"`
	// Records is the number of records in the log, including tombstones, superseded records and
	// transaction markers. It is absent in reports of older brokers. RecordsExact is false if the
	// number is estimated for some segments: segments that have no key sidecar and were not written by
	// this process.
	Records      *int64 `json:"records,omitempty"`
	RecordsExact bool   `json:"recordsExact"`
	// DistinctKeys is Records without the records that the last pass counted as superseded. If Records
	// is exact, this is an upper bound on the number of distinct keys. It includes keys whose latest
	// record is a tombstone, records that no pass has compared yet, and transaction markers.
	// DistinctKeys is absent while a pass runs, until the first pass since the broker's start has
	// ended, and after records were deleted from the start of the log.
	DistinctKeys *int64 `json:"distinctKeys,omitempty"`
	// Phase is idle, queued, indexing, deduplicating, rewriting or committing.
	Phase string `json:"phase"`
	// Reason explains why the replica is in this phase. It is one of the reasons of condition
	// Compacting.
	Reason string `json:"reason"`
	// Trigger explains why a pass is running or queued: max_lag, requested, storage_pressure,
	// dirty_ratio or tombstones. It is absent while no pass is running or queued.
	Trigger string `json:"trigger,omitempty"`
	// TombstoneCleanOffset is the offset below which no tombstone has an older record of its key left
	// in this log. ReplicasTombstoneCleanOffset is the smallest TombstoneCleanOffset of all replicas,
	// as last published by the leader. Tombstones at or above ReplicasTombstoneCleanOffset are kept.
	TombstoneCleanOffset         int64 `json:"tombstoneCleanOffset"`
	ReplicasTombstoneCleanOffset int64 `json:"replicasTombstoneCleanOffset"`
	// OverdueSeconds is the number of seconds by which the oldest dirty segment, or the oldest known
	// superseded record, exceeds maxLag; 0 if neither does.
	OverdueSeconds float64 `json:"overdueSeconds"`
	// NextDue is the time at which the next pass becomes due even if nothing is appended, because of
	// maxLag, tombstones or the end of a quarantine. It is absent if there is no such time.
	NextDue       *float64 `json:"nextDueTimestampSeconds,omitempty"`
	ProgressRatio float64  `json:"progressRatio"`
	EtaSeconds    *float64 `json:"etaSeconds,omitempty"`
	// Runs is the number of ended passes by result: success, nothing_to_do, aborted, failed. Runs and
	// the following sums cover all passes since the log was created on this broker, even across
	// restarts. The sums include the running pass.
	Runs map[string]int64 `json:"runs"`
	// ReadBytes and WrittenBytes are the cleaner's I/O on data files. SidecarReadBytes and
	// SidecarWrittenBytes are its I/O on key sidecars.
	ReadBytes           int64 `json:"readBytes"`
	WrittenBytes        int64 `json:"writtenBytes"`
	SidecarReadBytes    int64 `json:"sidecarReadBytes"`
	SidecarWrittenBytes int64 `json:"sidecarWrittenBytes"`
	ReclaimedBytes      int64 `json:"reclaimedBytes"`
	RemovedRecords      int64 `json:"removedRecords"`
	// LastSuccess is the time of the last successful pass, even across restarts. It is absent if no
	// pass has succeeded.
	LastSuccess *float64 `json:"lastSuccessTimestampSeconds,omitempty"`
	// LastError is the error of the last failed pass since the broker started, and LastErrorTime is
	// the time of this error. Both are absent once a pass has succeeded.
	LastError     string   `json:"lastError,omitempty"`
	LastErrorTime *float64 `json:"lastErrorTimestampSeconds,omitempty"`

	// RunningPass is the running pass with its totals so far; it is absent while no pass is running.
	// LastPass is the last ended pass, even across restarts; it is absent until the first pass has
	// ended.
	RunningPass *Pass `json:"runningPass,omitempty"`
	LastPass    *Pass `json:"lastPass,omitempty"`
	// MaxGarbagePercent is the topic's compaction.maxGarbagePercent. CleanCompression is the topic's
	// compression.clean, a codec with its level; it is absent if the setting is absent. Kafka has
	// neither of these settings. Both fields are absent in reports of older brokers.
	MaxGarbagePercent *int   `json:"maxGarbagePercent,omitempty"`
	CleanCompression  string `json:"cleanCompression,omitempty"`
	// CleanNowAsked is the ticket of the latest request for an immediate pass. CleanNowServed is the
	// highest ticket that a pass has fulfilled. Both are 0 when the broker starts.
	CleanNowAsked  int64 `json:"cleanNowAsked"`
	CleanNowServed int64 `json:"cleanNowServed"`
	// CleanNow is the state of the topic's annotation heartwood.dev/clean-now; it is absent without
	// the annotation.
	CleanNow *CleanNow `json:"cleanNow,omitempty"`
}
