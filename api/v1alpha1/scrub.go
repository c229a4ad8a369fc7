package v1alpha1

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BrokerScrub is what a broker reports about its scrub, the check of everything that it keeps at
// rest.
type BrokerScrub struct {
	// State is Off, Waiting (for the next round) or Running.
	State string `json:"state"`
	// CheckedSince is the begin of the last complete round: everything at rest was checked after it.
	// It is absent before the end of the first round.
	// +optional
	CheckedSince *metav1.Time `json:"checkedSince,omitempty"`
	// CheckedPercent is the progress of the round, in steps of 10.
	// +optional
	CheckedPercent int32 `json:"checkedPercent,omitempty"`
	// Damaged is the number of segments in which the last check has found damage. The files of a
	// partition that belong to no segment count as one segment, and so do those of the data
	// directory.
	// +optional
	Damaged int32 `json:"damaged,omitempty"`
	// Requested is the last value of annotation heartwood.dev/scrub-now for which the broker has
	// begun a check.
	// +optional
	Requested string `json:"requested,omitempty"`
	// RequestState is the state of that check: Pending, Running or Done.
	// +optional
	RequestState string `json:"requestState,omitempty"`
	// Findings are the damaged files that were found or repaired last, at most ScrubFindingsMax.
	// +optional
	// +listType=atomic
	Findings []ScrubFinding `json:"findings,omitempty"`
}

// ScrubFinding is a damaged file.
type ScrubFinding struct {
	// Partition is TOPIC-NUMBER, with the name in Kafka; absent for a file of the data directory.
	// +optional
	Partition string `json:"partition,omitempty"`
	// File is relative to the data directory.
	File string `json:"file"`
	// Position is the first damaged byte, or the begin of the record batch or entry that contains it.
	Position int64 `json:"position"`
	// Problem says what contradicts what.
	Problem string `json:"problem"`
	// Found is when the damage was found.
	Found metav1.Time `json:"found"`
	// Repaired is when the file was replaced by a correct one; absent until then.
	// +optional
	Repaired *metav1.Time `json:"repaired,omitempty"`
}

const (
	// ScrubFindingsMax is the maximum number of findings of a broker in the status.
	ScrubFindingsMax = 8
	// ScrubProblemMax is the maximum length of ScrubFinding.Problem.
	ScrubProblemMax = 200
)

// Values of BrokerScrub.State and BrokerScrub.RequestState.
const (
	ScrubStateOff     = "Off"
	ScrubStateWaiting = "Waiting"
	ScrubStateRunning = "Running"

	ScrubRequestPending = "Pending"
	ScrubRequestRunning = "Running"
	ScrubRequestDone    = "Done"
)

// Reasons of events about damage at rest.
const (
	// EventDamageFound: a broker has found a damaged file.
	EventDamageFound = "DamageFound"
	// EventDamageRepaired: a broker has replaced a damaged file by a correct one.
	EventDamageRepaired = "DamageRepaired"
)

// Same reports whether two findings are the same one in the same state. A file that is found
// damaged again after its repair is another finding.
func (f *ScrubFinding) Same(other *ScrubFinding) bool {
	return f.File == other.File && f.Found.Unix() == other.Found.Unix() &&
		(f.Repaired == nil) == (other.Repaired == nil)
}

// ScrubNow returns the request of annotation heartwood.dev/scrub-now: its value, and the topic, ""
// for everything. Each new value requests one check. TOPIC=VALUE, with the name in Kafka, requests
// one of this topic.
func (c *LogCluster) ScrubNow() (topic, value string) {
	value = c.Annotations[AnnotationScrubNow]
	if topic, _, ok := strings.Cut(value, "="); ok {
		return topic, value
	}
	return "", value
}

// Text returns the report as the value of Registration.Scrub.
func (s *BrokerScrub) Text() string {
	text, _ := json.Marshal(s) // cannot fail: the fields are strings, numbers and times
	return string(text)
}

// ReadScrub returns the report in a registration. It returns nil if there is no valid one, as of a
// broker of an earlier version.
func (r Registration) ReadScrub() *BrokerScrub {
	s := &BrokerScrub{}
	if json.Unmarshal([]byte(r.Scrub), s) != nil || s.State == "" {
		return nil
	}
	return s
}
