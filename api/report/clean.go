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
	// Trigger is why it began: one of Trigger*.
	Trigger string  `json:"trigger"`
	Began   float64 `json:"beganTimestampSeconds"`
	// Ended is absent while the pass runs, and so is Result: one of Result*.
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

// CleanNow is what became of the annotation heartwood.dev/clean-now of the topic on one replica.
type CleanNow struct {
	Value string `json:"value"`
	// State is pending (no pass has begun for it yet), running, failed (it is tried again with
	// back-off) or done.
	State string `json:"state"`
	// Finished is when it was done; absent before.
	Finished *float64 `json:"finishedTimestampSeconds,omitempty"`
}

// States of a CleanNow.
const (
	CleanNowPending = "pending"
	CleanNowRunning = "running"
	CleanNowFailed  = "failed"
	CleanNowDone    = "done"
)

// CleanRequests is the answer of POST /api/v1/topics/TOPIC/clean: what will be cleaned.
type CleanRequests struct {
	Topic    string         `json:"topic"`
	Requests []CleanRequest `json:"requests"`
	// Elsewhere are replicas on brokers that were not asked: each broker takes requests for its
	// own.
	Elsewhere []CleanElsewhere `json:"elsewhere,omitempty"`
}

// CleanRequest is one replica that is to be cleaned.
type CleanRequest struct {
	Broker    int32 `json:"broker"`
	Partition int32 `json:"partition"`
	// Ticket is served once the partition's cleanNowServed is as high. While its cleanNowAsked is
	// lower, the broker was restarted and has forgotten the request.
	Ticket int64 `json:"ticket"`
}

// CleanElsewhere is one replica that another broker must be asked for; Host is where clients reach
// that broker, "" if it is down.
type CleanElsewhere struct {
	Broker    int32  `json:"broker"`
	Partition int32  `json:"partition"`
	Host      string `json:"host,omitempty"`
}

// Failure is the answer to a request that was not done.
type Failure struct {
	Error string `json:"error"`
	// Reason is for programs: UnknownTopic, UnknownPartition, NotCompacted, CleanerDisabled,
	// NotReady, BadRequest, NotFound, Misdirected.
	Reason string `json:"reason,omitempty"`
}
