package summary

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestCleanNowCountsAllReplicas checks that the reports of followers count, too.
func TestCleanNowCountsAllReplicas(t *testing.T) {
	now := func(state, value string, finished float64) *report.Compaction {
		c := &report.CleanNow{Value: value, State: state}
		if finished > 0 {
			c.Finished = &finished
		}
		return &report.Compaction{CleanNow: c}
	}
	for name, test := range map[string]struct {
		rows     []*report.Compaction
		state    v1alpha1.CleanNowState
		replicas string
	}{
		"requested": {[]*report.Compaction{{}, now("done", "sunday", 1)},
			v1alpha1.CleanNowPending, "0/3"},
		"one running": {[]*report.Compaction{now("running", "monday", 0),
			now("failed", "monday", 0), now("pending", "monday", 0)}, v1alpha1.CleanNowRunning,
			"0/3"},
		"one failed": {[]*report.Compaction{now("done", "monday", 5),
			now("failed", "monday", 0)}, v1alpha1.CleanNowFailed, "1/3"},
		"one does not respond": {[]*report.Compaction{now("done", "monday", 5),
			now("done", "monday", 7)}, v1alpha1.CleanNowPending, "2/3"},
		"all done": {[]*report.Compaction{now("done", "monday", 5),
			now("done", "monday", 7), now("done", "monday", 6)}, v1alpha1.CleanNowDone, "3/3"},
		"more replicas than expected": {[]*report.Compaction{now("done", "monday", 5),
			now("done", "monday", 7), now("done", "monday", 6), now("done", "monday", 6)},
			v1alpha1.CleanNowDone, "4/4"},
	} {
		rows := leadersOf(test.rows...)
		rows.Replicas[0].Leader = false
		got := CleanNow("monday",
			&v1alpha1.CleanNowStatus{Value: "sunday", State: v1alpha1.CleanNowDone}, rows, 3)
		if got.State != test.state || got.Replicas != test.replicas || got.Value != "monday" {
			t.Errorf("%s: got %+v, want %s %s", name, got, test.state, test.replicas)
		}
		end := got.CompletionTime
		if (end != nil) != (got.State == v1alpha1.CleanNowDone) || end != nil && end.Unix() != 7 {
			t.Errorf("%s: got completion time %s, want second 7, in state Done only", name, end)
		}
	}
}

func TestDoneStaysDone(t *testing.T) {
	done := &v1alpha1.CleanNowStatus{Value: "monday", State: v1alpha1.CleanNowDone, Replicas: "3/3"}
	if diff := cmp.Diff(done, CleanNow("monday", done, Rows{}, 4)); diff != "" {
		t.Error(diff)
	}
	if got := CleanNow("", done, Rows{}, 3); got != nil {
		t.Errorf("without the annotation: got %+v, want nil", got)
	}
	if got := CleanNow("monday", nil, Rows{}, 0); got.State != v1alpha1.CleanNowPending {
		t.Errorf("topic without partitions: got %+v, want Pending", got)
	}
}
