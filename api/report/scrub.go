package report

// Scrubs is the response of GET /api/v1/scrub: the scrubs of this process's brokers. A scrub
// re-reads everything that a broker keeps at rest.
type Scrubs struct {
	Scrubs []Scrub `json:"scrubs"`
}

// These are the values of Scrub.State.
const (
	ScrubOff     = "off"
	ScrubWaiting = "waiting" // waiting for the next round
	ScrubRunning = "running"
)

// Scrub is the scrub of one broker.
type Scrub struct {
	Broker int32 `json:"broker"`
	// State is off, waiting (for the next round) or running.
	State string `json:"state"`
	// IntervalSeconds is the time between the starts of two rounds. BytesPerSecond is the maximum read
	// rate (LogCluster spec.scrub). Both are 0 if the scrub is off.
	IntervalSeconds float64 `json:"intervalSeconds"`
	BytesPerSecond  int64   `json:"bytesPerSecond"`
	// CheckedSince is the start of the last complete round. Everything at rest was checked after this
	// time. It is absent before the first round has ended.
	CheckedSince *float64 `json:"checkedSinceTimestampSeconds,omitempty"`
	// Ended is the end of the last complete round.
	Ended *float64 `json:"endedTimestampSeconds,omitempty"`
	// Began is the start of the current round, or of the last round if none is running. It is absent
	// before the first round.
	Began *float64 `json:"beganTimestampSeconds,omitempty"`
	// Next is the start of the next round. It is absent while a round runs.
	Next *float64 `json:"nextTimestampSeconds,omitempty"`
	// CheckedSegments is the number of Segments that this round has checked. A partition's files that
	// belong to no segment count as one segment, and so do the files of the data directory.
	CheckedSegments int `json:"checkedSegments"`
	Segments        int `json:"segments"`
	// CheckedBytes is the number of bytes that this round has read.
	CheckedBytes int64 `json:"checkedBytes"`
	// Damage contains the damage that the latest check of each file has found.
	Damage []ScrubDamage `json:"damage"`
	// Repaired contains the most recently repaired damage, newest last.
	Repaired []ScrubDamage `json:"repaired"`
	// Requests contains the last requests to check a topic, or everything, at once.
	Requests []ScrubRequest `json:"requests"`
}

// ScrubDamage is a place in a file whose content contradicts its checksum, its format or the
// records.
type ScrubDamage struct {
	Topic     string `json:"topic,omitempty"` // absent for files of the data directory
	Partition int32  `json:"partition"`
	// File is the file's path relative to the data directory.
	File     string  `json:"file"`
	Position int64   `json:"position"`
	Problem  string  `json:"problem"`
	Found    float64 `json:"foundTimestampSeconds"`
	// Repaired is the time at which the file was replaced. It is absent until then.
	Repaired *float64 `json:"repairedTimestampSeconds,omitempty"`
}

// ScrubRequest is the state of requests to check the files of a topic, or all files.
type ScrubRequest struct {
	Topic string `json:"topic,omitempty"` // absent if everything is checked
	// Asked is the ticket of the last request. Served is the ticket of the last request that was
	// served.
	Asked  int64 `json:"asked"`
	Served int64 `json:"served"`
	// Running is true while the files are being checked. CheckedSegments is the number of Segments
	// that were already checked.
	Running         bool     `json:"running"`
	CheckedSegments int      `json:"checkedSegments"`
	Segments        int      `json:"segments"`
	Finished        *float64 `json:"finishedTimestampSeconds,omitempty"`
}

// ScrubRequests is the response of POST /api/v1/scrub.
type ScrubRequests struct {
	Topic    string            `json:"topic,omitempty"`
	Requests []ScrubNowRequest `json:"requests"`
	// Elsewhere lists the other brokers. Send the request to them, too.
	Elsewhere []ScrubElsewhere `json:"elsewhere,omitempty"`
}

// ScrubNowRequest is a broker that has accepted a request. Once the request is served, the topic's
// ScrubRequest.Served is at least Ticket. If ScrubRequest.Asked is less than Ticket, the broker has
// lost the request.
type ScrubNowRequest struct {
	Broker int32 `json:"broker"`
	Ticket int64 `json:"ticket"`
	// Accepted is the time by the broker's clock. Repairs since then result from the request or from
	// the current round.
	Accepted float64 `json:"acceptedTimestampSeconds"`
}

// ScrubElsewhere is another broker. Host is the address at which clients reach it; it is empty if
// the broker is down.
type ScrubElsewhere struct {
	Broker int32  `json:"broker"`
	Host   string `json:"host,omitempty"`
}
