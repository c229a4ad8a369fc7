package passlog

import (
	"maps"
	"strings"

	"heartwood.dev/heartwood/api/report"
)

// Key identifies a partition's log. A topic that is deleted and created again has another id, so
// its logs have other keys.
type Key struct {
	TopicID   string // as Kafka writes it: 22 characters of URL-safe base64
	Partition int32
}

// Totals are the sums of all passes over a log that have ended, since the log was created on this
// broker. Values are immutable. The zero value is for a log without passes.
type Totals struct {
	Runs map[string]int64 `json:"runs"` // number of passes by result

	ReadBytes           int64 `json:"readBytes,omitempty"`
	WrittenBytes        int64 `json:"writtenBytes,omitempty"`
	SidecarReadBytes    int64 `json:"sidecarReadBytes,omitempty"`
	SidecarWrittenBytes int64 `json:"sidecarWrittenBytes,omitempty"`
	ReclaimedBytes      int64 `json:"reclaimedBytes,omitempty"`
	RemovedRecords      int64 `json:"removedRecords,omitempty"`
	// LastSuccess is the end of the last pass that did not fail and was not aborted.
	LastSuccess *float64     `json:"lastSuccessTimestampSeconds,omitempty"`
	LastPass    *report.Pass `json:"lastPass,omitempty"`
}

// errorBytesMax is the maximum length of the error in Totals.LastPass. It also limits the length of
// a line.
const errorBytesMax = 512

// with returns the totals plus a pass that has ended.
func (t Totals) with(pass report.Pass) Totals {
	runs := make(map[string]int64, len(t.Runs)+1)
	maps.Copy(runs, t.Runs)
	runs[pass.Result]++
	t.Runs = runs
	t.ReadBytes += pass.ReadBytes
	t.WrittenBytes += pass.WrittenBytes
	t.SidecarReadBytes += pass.SidecarReadBytes
	t.SidecarWrittenBytes += pass.SidecarWrittenBytes
	t.ReclaimedBytes += pass.ReclaimedBytes
	t.RemovedRecords += pass.RemovedRecords
	if pass.Result == report.ResultSuccess || pass.Result == report.ResultNothingToDo {
		t.LastSuccess = pass.Ended
	}
	if len(pass.Error) > errorBytesMax {
		pass.Error = strings.ToValidUTF8(pass.Error[:errorBytesMax], "")
	}
	t.LastPass = &pass
	return t
}
