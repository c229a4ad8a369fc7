package summary

import (
	"fmt"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// CleanNow returns the state of the clean that annotation heartwood.dev/clean-now requests.
// Parameter value is the annotation's value; if it is empty, CleanNow returns nil. replicas is the
// topic's number of replicas. before is the previous state, or nil. Once the state for a value is
// Done, it stays Done, even if replicas are added later.
func CleanNow(value string, before *v1alpha1.CleanNowStatus, rows Rows,
	replicas int) *v1alpha1.CleanNowStatus {
	switch {
	case value == "":
		return nil
	case before != nil && before.Value == value && before.State == v1alpha1.CleanNowDone:
		return before.DeepCopy()
	}
	count := map[string]int{}
	var last *float64
	for _, row := range rows.Replicas {
		if row.Compaction == nil || row.Compaction.CleanNow == nil ||
			row.Compaction.CleanNow.Value != value {
			continue
		}
		now := row.Compaction.CleanNow
		count[now.State]++
		if now.State == report.CleanNowDone && now.Finished != nil &&
			(last == nil || *now.Finished > *last) {
			last = now.Finished
		}
	}
	done := count[report.CleanNowDone]
	status := &v1alpha1.CleanNowStatus{
		Value: value, State: v1alpha1.CleanNowPending,
		Replicas: fmt.Sprintf("%d/%d", done, max(done, replicas)),
	}
	switch {
	case count[report.CleanNowRunning] > 0:
		status.State = v1alpha1.CleanNowRunning
	case count[report.CleanNowFailed] > 0:
		status.State = v1alpha1.CleanNowFailed
	case replicas > 0 && done >= replicas:
		status.State, status.CompletionTime = v1alpha1.CleanNowDone, timeOf(last)
	}
	return status
}
