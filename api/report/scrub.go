package report

// Scrubs is the response of GET /api/v1/scrub: the scrubs of the brokers of the process, which
// re-read everything that they keep at rest.
type Scrubs struct {
	Scrubs []Scrub `json:"scrubs"`
}

// Values of Scrub.State.
const (
	ScrubOff     = "off"
	ScrubWaiting = "waiting" // for the begin of the next round
	ScrubRunning = "running"
)

// Scrub is the scrub of one broker.
type Scrub struct {
	Broker int32 `json:"broker"`
	// State is off, waiting (for the next round) or running.
	State string `json:"state"`
	// IntervalSeconds is the time between the begins of two rounds, and BytesPerSecond the maximum
	// rate of the reads (LogCluster spec.scrub); both are 0 if the scrub is off.
	IntervalSeconds float64 `json:"intervalSeconds"`
	BytesPerSecond  int64   `json:"bytesPerSecond"`
	// CheckedSince is the begin of the last complete round: everything at rest was checked after it.
	// It is absent before the end of the first round.
	CheckedSince *float64 `json:"checkedSinceTimestampSeconds,omitempty"`
	// Ended is the end of the last complete round.
	Ended *float64 `json:"endedTimestampSeconds,omitempty"`
	// Began is the begin of the present or last round; absent before the first one.
	Began *float64 `json:"beganTimestampSeconds,omitempty"`
	// Next is the begin of the next round; absent while a round runs.
	Next *float64 `json:"nextTimestampSeconds,omitempty"`
	// CheckedSegments is how many of Segments this round has checked. The files of a partition that
	// belong to no segment count as one, and so do those of the data directory.
	CheckedSegments int `json:"checkedSegments"`
	Segments        int `json:"segments"`
	// CheckedBytes is the number of bytes that this round has read.
	CheckedBytes int64 `json:"checkedBytes"`
	// Damage is where the last check of each file has found damage.
	Damage []ScrubDamage `json:"damage"`
	// Repaired are the last places at which damage was repaired, the newest last.
	Repaired []ScrubDamage `json:"repaired"`
	// Requests are the last requests to check a topic, or everything, at once.
	Requests []ScrubRequest `json:"requests"`
}

// ScrubDamage is a place that contradicts its checksum, its form or the records.
type ScrubDamage struct {
	Topic     string `json:"topic,omitempty"` // absent for the files of the data directory
	Partition int32  `json:"partition"`
	// File is relative to the data directory.
	File     string  `json:"file"`
	Position int64   `json:"position"`
	Problem  string  `json:"problem"`
	Found    float64 `json:"foundTimestampSeconds"`
	// Repaired is when the file was replaced; absent until then.
	Repaired *float64 `json:"repairedTimestampSeconds,omitempty"`
}

// ScrubRequest is the state of the requests to check the files of a topic, or all files.
type ScrubRequest struct {
	Topic string `json:"topic,omitempty"` // absent for everything
	// Asked and Served are the ticket of the last request, and that of the last one that was served.
	Asked  int64 `json:"asked"`
	Served int64 `json:"served"`
	// Running is true while the files are checked. CheckedSegments is then how many of Segments were
	// checked.
	Running         bool     `json:"running"`
	CheckedSegments int      `json:"checkedSegments"`
	Segments        int      `json:"segments"`
	Finished        *float64 `json:"finishedTimestampSeconds,omitempty"`
}

// ScrubRequests is the response of POST /api/v1/scrub.
type ScrubRequests struct {
	Topic    string            `json:"topic,omitempty"`
	Requests []ScrubNowRequest `json:"requests"`
	// Elsewhere lists the other brokers, which have to be asked themselves.
	Elsewhere []ScrubElsewhere `json:"elsewhere,omitempty"`
}

// ScrubNowRequest is one broker that has accepted a request. ScrubRequest.Served of the topic is at
// least Ticket once it is served. If ScrubRequest.Asked is less, the broker has lost the request.
type ScrubNowRequest struct {
	Broker int32 `json:"broker"`
	Ticket int64 `json:"ticket"`
	// Accepted is the time of the broker. Repairs since then are results of the request or of the
	// round.
	Accepted float64 `json:"acceptedTimestampSeconds"`
}

// ScrubElsewhere is another broker. Host is the address at which clients reach it, empty if it is
// down.
type ScrubElsewhere struct {
	Broker int32  `json:"broker"`
	Host   string `json:"host,omitempty"`
}
