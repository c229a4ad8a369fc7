package report

// Keys is the response of GET /api/v1/topics/TOPIC/keys?key=KEY: the records of one key in the logs
// of the partitions' leaders. Times are Unix seconds; keys and values are in standard base64.
type Keys struct {
	Topic string `json:"topic"`
	Key   []byte `json:"key"`
	// Partitions contains the searched partitions that brokers of this process lead, ascending.
	Partitions []KeyPartition `json:"partitions"`
	// Elsewhere contains the searched partitions that other brokers lead. Send the request to these
	// brokers.
	Elsewhere []KeyElsewhere `json:"elsewhere,omitempty"`
}

// KeyElsewhere is a partition that another broker leads. If no leader is up, Broker is -1 and Host
// is empty.
type KeyElsewhere struct {
	Partition int32  `json:"partition"`
	Broker    int32  `json:"broker"`
	Host      string `json:"host"`
}

// These are the values of KeyPartition.State.
const (
	KeyPresent = "present" // the latest record has a value
	KeyDeleted = "deleted" // the latest record is a tombstone
	KeyAbsent  = "absent"  // the log has no committed record of the key
	KeyUnknown = "unknown" // the search ended early, before it found a committed record
)

// KeyPartition contains the records of a key in one partition, up to HighWatermark.
type KeyPartition struct {
	Broker           int32 `json:"broker"`
	Partition        int32 `json:"partition"`
	LogStartOffset   int64 `json:"logStartOffset"`
	HighWatermark    int64 `json:"highWatermark"`
	LastStableOffset int64 `json:"lastStableOffset"`
	// State is the key's state for a consumer that reads the whole log with read_committed: one of the
	// Key constants.
	State string `json:"state"`
	// Complete is false if the search ended early, after 32 MiB or 2 s. The search begins at the end
	// of the log, so it finds the newest records first.
	Complete bool `json:"complete"`
	// Records is sorted by offset, with the newest record first.
	Records []KeyRecord `json:"records"`
	// ReadBytes is the number of bytes read from files. Segments is the number of the log's segments.
	// Scanned is the number of those segments that were read because they have no key sidecar. For the
	// other segments, the sidecar shows whether they contain the key.
	ReadBytes int64 `json:"readBytes"`
	Segments  int   `json:"segments"`
	Scanned   int   `json:"scannedSegments"`
}

// These are the values of KeyRecord.State.
const (
	RecordLive       = "live"       // the latest committed record of the key
	RecordTombstone  = "tombstone"  // the same, without a value: it deletes the key
	RecordSuperseded = "superseded" // older than the latest committed record of the key
	RecordAborted    = "aborted"    // record of an aborted transaction
	// RecordUndecided is the state of a record at or above the last stable offset. Consumers with
	// read_committed do not receive the record yet.
	RecordUndecided = "undecided"
)

// KeyRecord is one record of a key.
type KeyRecord struct {
	Offset    int64   `json:"offset"`
	Timestamp float64 `json:"timestampSeconds"`
	State     string  `json:"state"`
	// SupersededBy is the offset of the next committed record of the key. It is present only in state
	// superseded.
	SupersededBy *int64 `json:"supersededBy,omitempty"`
	// Value is null for a tombstone. It is truncated to the parameter valueBytes; ValueBytes is its
	// full size.
	Value      []byte      `json:"value"`
	ValueBytes int         `json:"valueBytes"`
	Headers    []KeyHeader `json:"headers,omitempty"`
	// HeadersOmitted is true if the response omits the record's headers, because they would exceed 32
	// MiB together with the values and headers of newer records.
	HeadersOmitted bool `json:"headersOmitted,omitempty"`
	// Segment is the base offset of the record's segment. SegmentState and BlockedBy are the segment's
	// Segment.State and Segment.BlockedBy. They explain why a superseded record is still in the log.
	Segment      int64  `json:"segment"`
	SegmentState string `json:"segmentState"`
	BlockedBy    string `json:"blockedBy,omitempty"`
	// GoesFrom is the time from which a pass can remove the tombstone. WaitsFor is the reason why the
	// tombstone is not removed yet: older_record, replicas, retention or pass. Both are present only
	// in state tombstone. GoesFrom is also absent while WaitsFor is older_record or replicas.
	GoesFrom *float64 `json:"goesFromTimestampSeconds,omitempty"`
	WaitsFor string   `json:"waitsFor,omitempty"`
}

// KeyHeader is a header of a record. Value is null if the header has no value.
type KeyHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}
