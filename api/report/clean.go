package report

// These are the values of Pass.Result.
const (
	ResultSuccess     = "success"
	ResultNothingToDo = "nothing_to_do"
	ResultAborted     = "aborted"
	ResultFailed      = "failed"
)

// These are the values of Pass.Trigger.
const (
	TriggerMaxLag     = "max_lag"
	TriggerRequested  = "requested"
	TriggerTombstones = "tombstones"
	TriggerDirtyRatio = "dirty_ratio"
	TriggerPressure   = "storage_pressure"
)

// Pass is one pass of the cleaner over a partition. Sizes are bytes.
type Pass struct {
	// Trigger is the reason for the pass: one of the Trigger constants.
	Trigger string  `json:"trigger"`
	Began   float64 `json:"beganTimestampSeconds"`
	// Ended and Result are absent while the pass runs; Result is one of the Result constants.
	Ended  *float64 `json:"endedTimestampSeconds,omitempty"`
	Result string   `json:"result,omitempty"`
	Error  string   `json:"error,omitempty"`

	// ThrottledSeconds is the time for which the pass has waited because of the cleaner's I/O limit
	// (LogCluster spec.cleaner.ioRate), summed over its goroutines.
	ThrottledSeconds float64 `json:"throttledSeconds"`
	// BytesPerSecond is the number of bytes that a running pass reads and writes per second, measured
	// over the last 10 seconds. It is absent in the pass's first second, and after the pass has ended.
	BytesPerSecond *float64 `json:"bytesPerSecond,omitempty"`

	ReadBytes           int64 `json:"readBytes"`
	WrittenBytes        int64 `json:"writtenBytes"`
	SidecarReadBytes    int64 `json:"sidecarReadBytes"`
	SidecarWrittenBytes int64 `json:"sidecarWrittenBytes"`
	ReclaimedBytes      int64 `json:"reclaimedBytes"`
	RemovedRecords      int64 `json:"removedRecords"`
	RemovedTombstones   int64 `json:"removedTombstones"`
	RewrittenSegments   int   `json:"rewrittenSegments"`
	UntouchedSegments   int   `json:"untouchedSegments"`
	MemoryPeakBytes     int64 `json:"memoryPeakBytes"`
}

// CleanNow is the state of the topic's annotation heartwood.dev/clean-now on one replica.
type CleanNow struct {
	Value string `json:"value"`
	// State is pending (no pass has started for this value), running, failed (the pass failed and will
	// be retried with backoff) or done.
	State string `json:"state"`
	// Finished is the time at which State became done; absent until then.
	Finished *float64 `json:"finishedTimestampSeconds,omitempty"`
}

// These are the values of CleanNow.State.
const (
	CleanNowPending = "pending"
	CleanNowRunning = "running"
	CleanNowFailed  = "failed"
	CleanNowDone    = "done"
)

// CleanRequests is the response of POST /api/v1/topics/TOPIC/clean.
type CleanRequests struct {
	Topic    string         `json:"topic"`
	Requests []CleanRequest `json:"requests"`
	// Elsewhere lists the replicas on other brokers. A broker accepts requests only for its own
	// replicas.
	Elsewhere []CleanElsewhere `json:"elsewhere,omitempty"`
}

// CleanRequest is a replica for which a pass was requested.
type CleanRequest struct {
	Broker    int32 `json:"broker"`
	Partition int32 `json:"partition"`
	// Ticket is the number of the request. The request is fulfilled once the replica's
	// Compaction.CleanNowServed is at least Ticket. If Compaction.CleanNowAsked is less than Ticket,
	// the broker was restarted and has lost the request.
	Ticket int64 `json:"ticket"`
}

// CleanElsewhere is a replica on another broker. Host is the address at which clients reach that
// broker; it is empty if the broker is down.
type CleanElsewhere struct {
	Broker    int32  `json:"broker"`
	Partition int32  `json:"partition"`
	Host      string `json:"host,omitempty"`
}

// Failure is the response to a failed request.
type Failure struct {
	Error string `json:"error"`
	// Reason is the machine-readable cause: one of UnknownTopic, UnknownPartition, NotCompacted,
	// CleanerDisabled, ScrubOff, NotReady, BadRequest, NotFound, Misdirected.
	Reason string `json:"reason,omitempty"`
	// Addresses are the HTTP ports (HOST:PORT) of the brokers, if this process runs no broker.
	Addresses []string `json:"addresses,omitempty"`
}
