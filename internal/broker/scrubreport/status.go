package scrubreport

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/scrub"
)

// Status returns the scrub's state for the LogCluster's status.
func Status(dataDir string, status scrub.Status) v1alpha1.BrokerScrub {
	answer := v1alpha1.BrokerScrub{State: v1alpha1.ScrubStateRunning,
		Damaged: int32(len(status.Damaged)), Findings: findings(dataDir, status)}
	if !status.CheckedSince.IsZero() {
		answer.CheckedSinceTime = new(metav1.NewTime(status.CheckedSince))
	}
	if checked, total := status.Progress(status.Targets, ""); total > 0 {
		answer.CheckedPercent = int32(10*checked/total) * 10
	}
	switch {
	case status.Settings.Interval == 0:
		answer.State = v1alpha1.ScrubStateOff
	case status.Complete:
		answer.State = v1alpha1.ScrubStateWaiting
	}
	if asked := status.Annotated; asked != nil {
		answer.Requested, answer.RequestState = asked.Value, requestState(status.State)
	}
	return answer
}

// requestState returns the state of the scrub that the annotation requested.
func requestState(state scrub.State) string {
	for _, r := range state.Requests {
		switch {
		case r.Topic != state.Annotated.Topic || r.Served >= state.Annotated.Ticket:
		case r.Running >= state.Annotated.Ticket:
			return v1alpha1.ScrubRequestRunning
		default:
			return v1alpha1.ScrubRequestPending
		}
	}
	return v1alpha1.ScrubRequestDone
}

// findings returns the files that were most recently found damaged or repaired, the oldest first.
func findings(dataDir string, status scrub.Status) []v1alpha1.ScrubFinding {
	var all []v1alpha1.ScrubFinding
	files := map[string]bool{}
	for _, place := range slices.Concat(places(dataDir, status.Repaired),
		places(dataDir, status.Damaged)) {
		f := findingOf(place)
		if key := f.File + f.FoundTime.String(); !files[key] {
			files[key] = true
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.ScrubFinding) int {
		return cmp.Or(changed(a).Compare(changed(b)), strings.Compare(a.File, b.File))
	})
	return all[max(0, len(all)-v1alpha1.ScrubFindingsMax):]
}

// changed returns the time at which a finding last changed.
func changed(f v1alpha1.ScrubFinding) time.Time {
	if f.RepairedTime != nil {
		return f.RepairedTime.Time
	}
	return f.FoundTime.Time
}

func findingOf(place report.ScrubDamage) v1alpha1.ScrubFinding {
	f := v1alpha1.ScrubFinding{File: place.File, Position: place.Position,
		Problem:   place.Problem[:min(len(place.Problem), v1alpha1.ScrubProblemMax)],
		FoundTime: metav1.Unix(int64(place.Found), 0)}
	if place.Topic != "" {
		f.Partition = logstore.PartitionID{Topic: place.Topic, Index: place.Partition}.String()
	}
	if place.Repaired != nil {
		f.RepairedTime = new(metav1.Unix(int64(*place.Repaired), 0))
	}
	return f
}
