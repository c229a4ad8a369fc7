package report

// Keys is the response of GET /api/v1/topics/TOPIC/keys?key=KEY: the records of one key in the logs
// of the partitions' leaders. Times are Unix seconds; keys and values are in standard base64.
type Keys struct {
	Topic string `json:"topic"`
	Key   []byte `json:"key"`
	// Partitions contains the searched partitions that brokers of this process lead, ascending.
	Partitions []KeyPartition `json:"partitions"`
	// Elsewhere contains the searched partitions that other brokers lead: send the request to them.
	Elsewhere []KeyElsewhere `json:"elsewhere,omitempty"`
}

// KeyElsewhere is a partition that another broker leads. Broker is -1, and Host empty, if no leader
// is up.
type KeyElsewhere struct {
	Partition int32  `json:"partition"`
	Broker    int32  `json:"broker"`
	Host      string `json:"host"`
}

// Values of KeyPartition.State.
const (
	KeyPresent = "present" // the latest record has a value
	KeyDeleted = "deleted" // the latest record is a tombstone
	KeyAbsent  = "absent"  // the log has no committed record of the key
	KeyUnknown = "unknown" // the search ended early, before it found a committed record
)

// KeyPartition contains the records of a key in one partition below HighWatermark.
type KeyPartition struct {
	Broker           int32 `json:"broker"`
	Partition        int32 `json:"partition"`
	LogStartOffset   int64 `json:"logStartOffset"`
	HighWatermark    int64 `json:"highWatermark"`
	LastStableOffset int64 `json:"lastStableOffset"`
	// State is the state of the key for a consumer that reads the whole log with read_committed: one
	// of the Key constants.
	State string `json:"state"`
	// Complete is false if the search ended early, at 32 MiB or after 2 s. It begins at the end of
	// the log, so the records that it found are the newest.
	Complete bool `json:"complete"`
	// Records is sorted by offset, the newest first.
	Records []KeyRecord `json:"records"`
	// ReadBytes is the number of bytes that were read from files. Of the Segments segments of the
	// log, Scanned ones were read, because they have no key sidecar; for the others the sidecar
	// shows whether they contain the key.
	ReadBytes int64 `json:"readBytes"`
	Segments  int   `json:"segments"`
	Scanned   int   `json:"scannedSegments"`
}

// Values of KeyRecord.State.
const (
	RecordLive       = "live"       // the latest committed record of the key
	RecordTombstone  = "tombstone"  // the same, and it deletes the key
	RecordSuperseded = "superseded" // the latest committed record of the key, without a value
	RecordAborted    = "aborted"    // its transaction was aborted
	// RecordUndecided is at or above the last stable offset: consumers with read_committed do not
	// receive it yet.
	RecordUndecided = "undecided"
)

// KeyRecord is one record of a key.
type KeyRecord struct {
	Offset    int64   `json:"offset"`
	Timestamp float64 `json:"timestampSeconds"`
	State     string  `json:"state"`
	// SupersededBy is the offset of the next committed record of the key, in state superseded.
	SupersededBy *int64 `json:"supersededBy,omitempty"`
	// Value is null for a tombstone. It is cut at the parameter valueBytes; ValueBytes is its full
	// size.
	Value      []byte      `json:"value"`
	ValueBytes int         `json:"valueBytes"`
	Headers    []KeyHeader `json:"headers,omitempty"`
	// HeadersOmitted is true if the response omits the headers of the record, because they would
	// exceed 32 MiB together with the values and headers of newer records.
	HeadersOmitted bool `json:"headersOmitted,omitempty"`
	// Segment is the base offset of the record's segment. SegmentState and BlockedBy are its
	// Segment.State and Segment.BlockedBy: the reason why a superseded record is still in the log.
	Segment      int64  `json:"segment"`
	SegmentState string `json:"segmentState"`
	BlockedBy    string `json:"blockedBy,omitempty"`
	// GoesFrom is the time from which a pass may remove the tombstone. WaitsFor is what the removal
	// waits for: older_record, replicas, retention or pass. Both are present only in state tombstone;
	// GoesFrom is also absent while WaitsFor is older_record or replicas.
	GoesFrom *float64 `json:"goesFromTimestampSeconds,omitempty"`
	WaitsFor string   `json:"waitsFor,omitempty"`
}

// KeyHeader is a header of a record. Value is null if the header has no value.
type KeyHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}
