// Package report defines what a broker reports of its partition replicas over HTTP (GET
// /api/v1/partitions): the same figures as its metrics, one row for each replica. Brokers write it;
// the operator reads it for the status of Topics, and the dev page shows it.
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
	// Fault is why this replica is unavailable, such as a failed disk; absent if it is available.
	Fault string `json:"fault,omitempty"`

	// Compaction is absent if the topic is not compacted.
	Compaction *Compaction `json:"compaction,omitempty"`
}

// Compaction is the cleaner's report of one partition replica.
type Compaction struct {
	CleanBytes int64 `json:"cleanBytes"`
	DirtyBytes int64 `json:"dirtyBytes"`
	// DirtyRatio is dirty / (clean + dirty), 0..1: Kafka's definition.
	DirtyRatio float64 `json:"dirtyRatio"`
	// BlockedBytes are the bytes that cannot be cleaned now, by reason: active_segment, min_lag,
	// open_transaction, unreplicated, quarantined.
	BlockedBytes map[string]int64 `json:"blockedBytes"`
	// ReclaimableBytes is the garbage below the cleanable bound: what a pass would free that leaves
	// none. It is absent until it is known. ReclaimableExact is true if a pass has counted it and
	// nothing was appended since; else it is an estimate.
	ReclaimableBytes *int64 `json:"reclaimableBytes,omitempty"`
	ReclaimableExact bool   `json:"reclaimableExact"`
	// GarbageRatio is ReclaimableBytes / (clean + dirty), 0..1; absent if ReclaimableBytes is.
	GarbageRatio *float64 `json:"garbageRatio,omitempty"`
	// Phase is idle, queued, indexing, deduplicating, rewriting or committing.
	Phase string `json:"phase"`
	// Reason is the reason of the phase: one of the Topic condition Compacting.
	Reason string `json:"reason"`
	// Trigger is why a pass runs or is queued: max_lag, requested, dirty_ratio or tombstones;
	// absent if none is.
	Trigger string `json:"trigger,omitempty"`
	// TombstoneCleanOffset is the offset below which no tombstone has an older record of its key
	// left in this log. ReplicasTombstoneCleanOffset is the smallest of all replicas, as last
	// reported by the leader: tombstones from there on are kept.
	TombstoneCleanOffset         int64 `json:"tombstoneCleanOffset"`
	ReplicasTombstoneCleanOffset int64 `json:"replicasTombstoneCleanOffset"`
	// OverdueSeconds is the time by which the oldest superseded record is past maxLag, if that is
	// known; else 0.
	OverdueSeconds float64 `json:"overdueSeconds"`
	// NextDue is when time alone makes the next pass due: maxLag, tombstones, or the end of a
	// quarantine; absent if never.
	NextDue       *float64 `json:"nextDueTimestampSeconds,omitempty"`
	ProgressRatio float64  `json:"progressRatio"`
	EtaSeconds    *float64 `json:"etaSeconds,omitempty"`
	// Runs counts passes by result: success, nothing_to_do, aborted, failed.
	Runs map[string]int64 `json:"runs"`
	// ReadBytes and WrittenBytes are of data files; SidecarReadBytes and SidecarWrittenBytes of key
	// sidecars.
	ReadBytes           int64 `json:"readBytes"`
	WrittenBytes        int64 `json:"writtenBytes"`
	SidecarReadBytes    int64 `json:"sidecarReadBytes"`
	SidecarWrittenBytes int64 `json:"sidecarWrittenBytes"`
	ReclaimedBytes      int64 `json:"reclaimedBytes"`
	RemovedRecords      int64 `json:"removedRecords"`
	// LastSuccess is the time of the last successful pass; absent if there was none.
	LastSuccess *float64 `json:"lastSuccessTimestampSeconds,omitempty"`
	// LastError is the error of the last failed pass, and LastErrorTime its time; both are absent
	// once a pass has succeeded.
	LastError     string   `json:"lastError,omitempty"`
	LastErrorTime *float64 `json:"lastErrorTimestampSeconds,omitempty"`

	// RunningPass is the running pass with its sums so far; absent if none runs. LastPass is the
	// last pass that ended; absent before the first.
	RunningPass *Pass `json:"runningPass,omitempty"`
	LastPass    *Pass `json:"lastPass,omitempty"`
	// CleanNowAsked is the ticket of the last request for a pass at once, CleanNowServed the
	// highest ticket that a pass has served; 0 if there was none since the broker started.
	CleanNowAsked  int64 `json:"cleanNowAsked"`
	CleanNowServed int64 `json:"cleanNowServed"`
	// CleanNow is the state of the topic's annotation heartwood.dev/clean-now; absent without one.
	CleanNow *CleanNow `json:"cleanNow,omitempty"`
}
