package topic

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestWritesOfFastNumbersAreDeferred changes one value of a status at a time. If the value is
// fast-changing, the write must be deferred until the fourth round after the last write; otherwise
// it must not be deferred.
func TestWritesOfFastNumbersAreDeferred(t *testing.T) {
	status := func(change func(*v1alpha1.CompactionStatus,
		*metav1.Condition)) v1alpha1.TopicStatus {
		c := &v1alpha1.CompactionStatus{DirtyPercent: new(int32(10)), Phase: "Rewriting",
			ProgressPercent: new(int32(3)), CleanNow: &v1alpha1.CleanNowStatus{State: "Running"}}
		condition := metav1.Condition{Type: v1alpha1.ConditionCompacting,
			Reason: v1alpha1.ReasonCleaning, Message: "a pass runs (1 of 3 partitions)"}
		if change != nil {
			change(c, &condition)
		}
		return v1alpha1.TopicStatus{Compaction: c,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Message: "kept"},
				condition}}
	}
	key := types.NamespacedName{Name: "tickets"}
	for name, test := range map[string]struct {
		change func(*v1alpha1.CompactionStatus, *metav1.Condition)
		fast   bool
	}{
		"dirty": {func(c *v1alpha1.CompactionStatus, _ *metav1.Condition) { *c.DirtyPercent = 11 },
			true},
		"progress": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			*c.ProgressPercent = 4
		}, true},
		"end": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			c.EstimatedCompletionTime = &metav1.Time{Time: time.Unix(1, 0)}
		}, true},
		"count": {func(_ *v1alpha1.CompactionStatus,
			m *metav1.Condition) {
			m.Message = "a pass runs (2 of 3 partitions)"
		}, true},
		"phase": {func(c *v1alpha1.CompactionStatus, _ *metav1.Condition) { c.Phase = "Idle" },
			false},
		"reason": {func(_ *v1alpha1.CompactionStatus,
			m *metav1.Condition) {
			m.Reason = v1alpha1.ReasonQueued
		}, false},
		"cleaned": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			c.LastCleanTime = &metav1.Time{}
		}, false},
		"clean now": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			c.CleanNow.State = "Done"
		}, false},
	} {
		before, after := status(nil), status(test.change)
		var w statusWrites
		if w.deferred(key, before, after, 1) {
			t.Errorf("%s: got the first write deferred, want it written", name)
		}
		w.record(key, 10)
		if got := w.deferred(key, before, after, 13); got != test.fast {
			t.Errorf("%s: three rounds after the last write: got deferred %t, want %t", name, got, test.fast)
		}
		if w.deferred(key, before, after, 14) {
			t.Errorf("%s: four rounds after the last write: got deferred, want written", name)
		}
		if after.Conditions[0].Message != "kept" || after.Conditions[1].Message == "" ||
			after.Compaction.DirtyPercent == nil {
			t.Errorf("%s: the comparison changed the status: %+v", name, after)
		}
	}
}
