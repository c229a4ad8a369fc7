package report

// RetainedLogs is the response of GET /api/v1/retained: the retained logs on the disks of this
// process's brokers.
type RetainedLogs struct {
	Logs []RetainedLog `json:"logs"`
}

// RetainedLog is the log of a deleted topic's partition. It can also be the log of a replica that
// was moved to another broker before any other replica was known to be complete.
type RetainedLog struct {
	Broker    int32  `json:"broker"`
	Topic     string `json:"topic"` // the topic's name in Kafka
	TopicID   string `json:"topicId"`
	Partition int32  `json:"partition"`
	SizeBytes int64  `json:"sizeBytes"`
	// Offsets is the number of offsets from the log start offset to the high watermark. A compacted
	// log contains fewer records.
	Offsets  int64   `json:"offsets"`
	Released float64 `json:"released"` // time at which the log was released, in Unix seconds
}
