// Package report holds what a broker says of its partitions over HTTP (GET /api/v1/partitions):
// what the metrics say, a row a partition replica. Brokers write it; the operator reads it for
// Topic status, people for a look.
package report

// Partitions is the answer of GET /api/v1/partitions.
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
	// Fault is why this replica does not serve what it should, such as a disk that failed; absent
	// while it is well.
	Fault string `json:"fault,omitempty"`

	// Compaction is absent when the topic is not compacted.
	Compaction *Compaction `json:"compaction,omitempty"`
}

// Compaction is what the cleaner knows of a partition.
type Compaction struct {
	CleanBytes int64 `json:"cleanBytes"`
	DirtyBytes int64 `json:"dirtyBytes"`
	// DirtyRatio is dirty / (clean + dirty), 0..1: Kafka's definition.
	DirtyRatio float64 `json:"dirtyRatio"`
	// BlockedBytes cannot be cleaned now, by reason: active_segment, min_lag, open_transaction,
	// unreplicated, quarantined.
	BlockedBytes map[string]int64 `json:"blockedBytes"`
	// ReclaimableBytes is the garbage below what may be cleaned: what a pass would free that leaves
	// none. Absent until it was looked for. ReclaimableExact tells that a pass has counted it, and
	// nothing has come since; else it is an estimate.
	ReclaimableBytes *int64 `json:"reclaimableBytes,omitempty"`
	ReclaimableExact bool   `json:"reclaimableExact"`
	// GarbageRatio is ReclaimableBytes / (clean + dirty), 0..1; absent while that is.
	GarbageRatio *float64 `json:"garbageRatio,omitempty"`
	// Phase is idle, queued, indexing, deduplicating, rewriting or committing.
	Phase string `json:"phase"`
	// Reason is why the phase is what it is: a reason of the Topic condition Compacting.
	Reason string `json:"reason"`
	// Trigger is why a pass runs or is queued: max_lag, requested, dirty_ratio, tombstones; absent
	// when neither.
	Trigger string `json:"trigger,omitempty"`
	// LonelyOffset is below which no tombstone has anything older of its key left in this log;
	// ReplicasLonelyOffset is the least of all replicas, as the leader told last: tombstones stay
	// from there on.
	LonelyOffset         int64 `json:"lonelyOffset"`
	ReplicasLonelyOffset int64 `json:"replicasLonelyOffset"`
	// OverdueSeconds is how far past maxLag the oldest superseded record is, as far as that is
	// known; 0: it is not.
	OverdueSeconds float64 `json:"overdueSeconds"`
	// NextDue is when the log wants its next pass because of the time: maxLag, tombstones, or the
	// end of a quarantine; absent: never.
	NextDue       *float64 `json:"nextDueTimestampSeconds,omitempty"`
	ProgressRatio float64  `json:"progressRatio"`
	EtaSeconds    *float64 `json:"etaSeconds,omitempty"`
	// by result: success, nothing_to_do, aborted, failed
	Runs         map[string]int64 `json:"runs"`
	ReadBytes    int64            `json:"readBytes"`
	WrittenBytes int64            `json:"writtenBytes"`
	// Of the key sidecars; ReadBytes and WrittenBytes are of the log.
	SidecarReadBytes    int64 `json:"sidecarReadBytes"`
	SidecarWrittenBytes int64 `json:"sidecarWrittenBytes"`
	ReclaimedBytes      int64 `json:"reclaimedBytes"`
	RemovedRecords      int64 `json:"removedRecords"`
	// LastSuccess is the time of the last successful pass; absent if there was none.
	LastSuccess *float64 `json:"lastSuccessTimestampSeconds,omitempty"`
	// LastError is that of the last pass that failed, and LastErrorTime when; both stay until a
	// pass succeeds.
	LastError     string   `json:"lastError,omitempty"`
	LastErrorTime *float64 `json:"lastErrorTimestampSeconds,omitempty"`

	// RunningPass is the pass that runs, as far as it is; absent while none does. LastPass is the
	// last that ended; absent before.
	RunningPass *Pass `json:"runningPass,omitempty"`
	LastPass    *Pass `json:"lastPass,omitempty"`
	// CleanNowAsked is the ticket of the last request to clean at once, CleanNowServed that of the
	// last one that a pass has served; 0 if there was none since the broker started.
	CleanNowAsked  int64 `json:"cleanNowAsked"`
	CleanNowServed int64 `json:"cleanNowServed"`
	// CleanNow is what became of the topic's annotation heartwood.dev/clean-now; absent without
	// one.
	CleanNow *CleanNow `json:"cleanNow,omitempty"`
}
