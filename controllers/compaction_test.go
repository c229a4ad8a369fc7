package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestMergeKeepsWhatAllReplicasSay(t *testing.T) {
	got := merge([]*report.Partitions{
		{Partitions: []report.Partition{{Broker: 0, Topic: "a", Leader: true},
			{Broker: 0, Topic: "b"}}},
		nil,
		{Partitions: []report.Partition{{Broker: 2, Topic: "a", Partition: 1}}},
	})
	if got.asked != 3 || got.answered != 2 || len(got.rows["a"]) != 2 || len(got.rows["b"]) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestHotNumbersWait: what changes all the time while producers write is not written all the time.
func TestHotNumbersWait(t *testing.T) {
	status := func(change func(*v1alpha1.CompactionStatus,
		*metav1.Condition)) v1alpha1.TopicStatus {
		c := &v1alpha1.CompactionStatus{Dirty: "10%", Phase: "Rewriting",
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
		hot    bool
	}{
		"dirty": {func(c *v1alpha1.CompactionStatus, _ *metav1.Condition) { c.Dirty = "11%" },
			true},
		"progress": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			*c.ProgressPercent = 4
		}, true},
		"end": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			c.ETA = &metav1.Time{Time: time.Unix(1, 0)}
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
			c.LastCleaned = &metav1.Time{}
		}, false},
		"clean now": {func(c *v1alpha1.CompactionStatus,
			_ *metav1.Condition) {
			c.CleanNow.State = "Done"
		}, false},
	} {
		before, after := status(nil), status(test.change)
		if (pace{}).holds(key, before, after, 1) {
			t.Errorf("%s: held back though nothing was written yet", name)
		}
		p := pace{key: 10}
		if got := p.holds(key, before, after, 13); got != test.hot {
			t.Errorf("%s: held back three rounds later: %t", name, got)
		}
		if p.holds(key, before, after, 14) {
			t.Errorf("%s: held back four rounds later", name)
		}
		if after.Conditions[0].Message != "kept" || after.Conditions[1].Message == "" ||
			after.Compaction.Dirty == "" {
			t.Errorf("%s: the status was changed by looking: %+v", name, after)
		}
	}
}
