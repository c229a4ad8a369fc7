package v1alpha1

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BrokerScrub is a broker's report on its scrub, which checks everything that the broker keeps at
// rest.
type BrokerScrub struct {
	// State is Off, Waiting (for the next round) or Running.
	State string `json:"state"`
	// CheckedSinceTime is the start of the last complete round. Everything at rest was checked after
	// this time. It is absent before the first round has ended.
	// +optional
	CheckedSinceTime *metav1.Time `json:"checkedSinceTime,omitempty"`
	// CheckedPercent is the progress of the round, in steps of 10.
	// +optional
	CheckedPercent int32 `json:"checkedPercent,omitempty"`
	// Damaged is the number of segments in which the last check has found damage. A partition's files
	// that belong to no segment count as one segment, and so do the files of the data directory.
	// +optional
	Damaged int32 `json:"damaged,omitempty"`
	// Requested is the last value of annotation heartwood.dev/scrub-now for which the broker has
	// begun a check.
	// +optional
	Requested string `json:"requested,omitempty"`
	// RequestState is the state of the requested check: Pending, Running or Done.
	// +optional
	RequestState string `json:"requestState,omitempty"`
	// Findings contains the damaged files that were found or repaired last, at most ScrubFindingsMax.
	// +optional
	// +listType=atomic
	Findings []ScrubFinding `json:"findings,omitempty"`
}

// ScrubFinding is a damaged file.
type ScrubFinding struct {
	// Partition is TOPIC-NUMBER, with the topic's name in Kafka. It is absent for a file of the data
	// directory.
	// +optional
	Partition string `json:"partition,omitempty"`
	// File is the file's path relative to the data directory.
	File string `json:"file"`
	// Position is the position of the first damaged byte, or the start of the record batch or entry
	// that contains it.
	Position int64 `json:"position"`
	// Problem describes the contradiction that the check has found.
	Problem string `json:"problem"`
	// FoundTime is the time at which the damage was found.
	FoundTime metav1.Time `json:"foundTime"`
	// RepairedTime is the time at which the file was replaced by a correct one. It is absent until
	// then.
	// +optional
	RepairedTime *metav1.Time `json:"repairedTime,omitempty"`
}

const (
	// ScrubFindingsMax is the maximum number of a broker's findings in the status.
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

// Same reports whether two findings are the same finding in the same state. If a file is found
// damaged again after its repair, this is another finding.
func (f *ScrubFinding) Same(other *ScrubFinding) bool {
	return f.File == other.File && f.FoundTime.Unix() == other.FoundTime.Unix() &&
		(f.RepairedTime == nil) == (other.RepairedTime == nil)
}

// ScrubNow returns the request in annotation heartwood.dev/scrub-now: the annotation's value, and
// the topic, or "" for everything. Each new value requests one check. TOPIC=VALUE, with the topic's
// name in Kafka, requests a check of this topic.
func (c *LogCluster) ScrubNow() (topic, value string) {
	value = c.Annotations[AnnotationScrubNow]
	if topic, _, ok := strings.Cut(value, "="); ok {
		return topic, value
	}
	return "", value
}

// Text returns the report as the value of Registration.Scrub.
func (s *BrokerScrub) Text() string {
	text, _ := json.Marshal(s) // cannot fail with these field types
	return string(text)
}

// ReadScrub returns the report in a registration. It returns nil if there is no valid report, for
// example before the broker has written one.
func (r Registration) ReadScrub() *BrokerScrub {
	s := &BrokerScrub{}
	if json.Unmarshal([]byte(r.Scrub), s) != nil || s.State == "" {
		return nil
	}
	return s
}
