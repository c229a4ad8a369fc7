package report

// Segments is the response of GET /api/v1/partitions/TOPIC/PARTITION/segments: the segments of one
// partition replica, ascending. Sizes are bytes, times are Unix seconds.
type Segments struct {
	SegmentsOf
	// Segments has at most SegmentsMax rows.
	Segments []Segment `json:"segments"`
	// Next is the value of parameter from with which a request returns the following rows. It is
	// absent after the last row.
	Next *int64 `json:"next,omitempty"`
}

// SegmentsMax is the maximum number of rows in a response.
const SegmentsMax = 500

// SegmentsOf describes the log whose segments a response contains.
type SegmentsOf struct {
	Broker    int32  `json:"broker"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Leader    bool   `json:"leader"`
	// Compacted is false if the log is not compacted. FirstDirtyOffset and BoundOffset are then 0.
	Compacted      bool  `json:"compacted"`
	LogStartOffset int64 `json:"logStartOffset"`
	LogEndOffset   int64 `json:"logEndOffset"`
	// FirstDirtyOffset is the offset up to which the last pass cleaned the log. BoundOffset is the
	// cleanable bound: the base offset of the first segment that cannot be cleaned now.
	FirstDirtyOffset int64 `json:"firstDirtyOffset"`
	BoundOffset      int64 `json:"boundOffset"`
	// Total is the log's number of segments.
	Total int `json:"total"`
}

// These are the values of Segment.State.
const (
	// SegmentClean is the state of a segment below the first dirty offset.
	SegmentClean = "clean"
	// SegmentDirty is the state of a segment between the first dirty offset and the cleanable bound.
	SegmentDirty = "dirty"
	// SegmentBlocked is the state of a segment at or above the cleanable bound; see Segment.BlockedBy.
	SegmentBlocked = "blocked"
	// SegmentExpired is the state of a segment below the log start offset. Retention deletes it.
	SegmentExpired = "expired"
	// SegmentUncompacted is the state of all segments of a log that is not compacted.
	SegmentUncompacted = "uncompacted"
)

// Segment is one segment of a log. Records, Tombstones and NullKeys are absent while the segment
// has no key sidecar. The active segment never has one.
type Segment struct {
	Base int64 `json:"base"`
	// LastOffset is Base - 1 if the segment is empty.
	LastOffset int64 `json:"lastOffset"`
	Bytes      int64 `json:"bytes"`
	// State is one of the Segment constants.
	State string `json:"state"`
	// BlockedBy is the reason for state blocked: active_segment, min_lag, open_transaction or
	// unreplicated. In state dirty it can be quarantined. It is absent otherwise.
	BlockedBy string `json:"blockedBy,omitempty"`
	// Records includes tombstones, records without a key, and transaction markers.
	Records    *int64 `json:"records,omitempty"`
	Tombstones *int64 `json:"tombstones,omitempty"`
	// NullKeys is the number of records without a key, including transaction markers.
	NullKeys *int64 `json:"nullKeys,omitempty"`
	// GarbageBytes and GarbageRecords are the garbage that the last pass counted in the segment but
	// did not remove. They are absent if no pass has counted it since the segment was written. They do
	// not include garbage caused by records that were appended after that pass.
	GarbageBytes   *int64 `json:"garbageBytes,omitempty"`
	GarbageRecords *int64 `json:"garbageRecords,omitempty"`
	// Counted is the start of the pass that counted the garbage. It is absent if this pass found
	// neither garbage nor tombstones.
	Counted *float64 `json:"countedTimestampSeconds,omitempty"`
	// Codec is the first batch's codec: none, gzip, snappy, lz4 or zstd. It is absent if the segment
	// is empty.
	Codec string `json:"codec,omitempty"`
	// Oldest is the first batch's largest timestamp. Newest is the segment's largest timestamp. Both
	// are as set by producers, and absent if the segment is empty.
	Oldest *float64 `json:"oldestTimestampSeconds,omitempty"`
	Newest *float64 `json:"newestTimestampSeconds,omitempty"`
	// Clocks contains the tombstones and transaction markers whose retention has begun, in at most 16
	// groups.
	Clocks []TombstoneClock `json:"clocks,omitempty"`
	// Chosen is true if the running pass rewrites the segment. Forced is true if the pass must rewrite
	// the segment even if this frees few bytes, because of maxLag, due tombstones or deleted records.
	Chosen bool `json:"chosen"`
	Forced bool `json:"forced"`
}

// TombstoneClock is a group of tombstones and transaction markers that became removable in the same
// pass. None of them has an older record of its key left in the log.
type TombstoneClock struct {
	Count int64 `json:"count"`
	// Since is the start of the pass that found the group removable.
	Since float64 `json:"sinceTimestampSeconds"`
	// GoesFrom is the time from which a pass can remove the whole group. It is absent while WaitsFor
	// is replicas.
	GoesFrom *float64 `json:"goesFromTimestampSeconds,omitempty"`
	// WaitsFor is replicas if another replica may still contain an older record of one of the keys.
	// Otherwise it is retention until GoesFrom, and pass after GoesFrom.
	WaitsFor string `json:"waitsFor"`
	// Replicas are the brokers for which the removal waits. Only the leader reports them.
	Replicas []int32 `json:"replicas,omitempty"`
}

// These are the values of TombstoneClock.WaitsFor and KeyRecord.WaitsFor.
const (
	WaitsForReplicas  = "replicas"
	WaitsForRetention = "retention"
	WaitsForPass      = "pass"
	// WaitsForOlderRecord means that an older record of the tombstone's key may still be in the log.
	WaitsForOlderRecord = "older_record"
)
