package report

// Results of a Pass.
const (
	ResultSuccess     = "success"
	ResultNothingToDo = "nothing_to_do"
	ResultAborted     = "aborted"
	ResultFailed      = "failed"
)

// Triggers of a Pass.
const (
	TriggerMaxLag     = "max_lag"
	TriggerRequested  = "requested"
	TriggerTombstones = "tombstones"
	TriggerDirtyRatio = "dirty_ratio"
)

// Pass is one pass of the cleaner over a partition. Sizes are bytes.
type Pass struct {
	// Trigger is why the pass was due: one of Trigger*.
	Trigger string  `json:"trigger"`
	Began   float64 `json:"beganTimestampSeconds"`
	// Ended and Result are absent while the pass runs; Result is one of Result*.
	Ended  *float64 `json:"endedTimestampSeconds,omitempty"`
	Result string   `json:"result,omitempty"`
	Error  string   `json:"error,omitempty"`

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
	// State is pending (no pass has started for it yet), running, failed (it is retried with
	// backoff) or done.
	State string `json:"state"`
	// Finished is when the state became done; absent before.
	Finished *float64 `json:"finishedTimestampSeconds,omitempty"`
}

// States of a CleanNow.
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
	// Elsewhere lists the replicas on other brokers: each broker takes requests for its own
	// replicas only.
	Elsewhere []CleanElsewhere `json:"elsewhere,omitempty"`
}

// CleanRequest is one replica for which a pass was requested.
type CleanRequest struct {
	Broker    int32 `json:"broker"`
	Partition int32 `json:"partition"`
	// Ticket is served once the partition's cleanNowServed is at least as high. If its
	// cleanNowAsked is lower, the broker was restarted and has lost the request.
	Ticket int64 `json:"ticket"`
}

// CleanElsewhere is one replica on another broker. Host is the address at which clients reach that
// broker, empty if it is down.
type CleanElsewhere struct {
	Broker    int32  `json:"broker"`
	Partition int32  `json:"partition"`
	Host      string `json:"host,omitempty"`
}

// Failure is the response to a request that failed.
type Failure struct {
	Error string `json:"error"`
	// Reason is for programs, one of UnknownTopic, UnknownPartition, NotCompacted, CleanerDisabled,
	// NotReady, BadRequest, NotFound, Misdirected.
	Reason string `json:"reason,omitempty"`
}
