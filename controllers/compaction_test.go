package controllers

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

func row(reason string) *report.Compaction { return &report.Compaction{Reason: reason, Phase: "idle"} }

func TestTheReasonAUserMostWantsToKnowIsTheTopics(t *testing.T) {
	answered := &clusterReport{answered: 1, asked: 2}
	for _, test := range []struct {
		rows    []*report.Compaction
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{nil, metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "1 of 2 brokers answered"},
		{[]*report.Compaction{row("UpToDate")}, metav1.ConditionFalse, v1alpha1.ReasonUpToDate, "(1 of 1 partitions)"},
		{[]*report.Compaction{row("UpToDate"), row("Cleaning"), row("Cleaning")}, metav1.ConditionTrue, v1alpha1.ReasonCleaning, "(2 of 3 partitions)"},
		{[]*report.Compaction{row("Cleaning"), row("Quarantined")}, metav1.ConditionFalse, v1alpha1.ReasonQuarantined, "(1 of 2 partitions)"},
		{[]*report.Compaction{row("ActiveSegmentOnly"), row("BelowDirtyRatio")}, metav1.ConditionFalse, v1alpha1.ReasonBelowDirtyRatio, "minDirtyPercent"},
		{[]*report.Compaction{row("OfAFutureBroker")}, metav1.ConditionUnknown, v1alpha1.ReasonUnknown, `"OfAFutureBroker"`},
	} {
		got := compacting(test.rows, answered)
		if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
			t.Errorf("%d rows: %+v, want %s %s with %q", len(test.rows), got, test.status, test.reason, test.message)
		}
	}
}

func TestEveryReasonOfTheSetHasItsPlaceAndMeaning(t *testing.T) {
	var known []string
	for _, r := range reasons {
		known = append(known, r.reason)
		if r.meaning == "" {
			t.Errorf("%s has no meaning", r.reason)
		}
	}
	for _, want := range []string{
		v1alpha1.ReasonUpToDate, v1alpha1.ReasonCleaning, v1alpha1.ReasonQueued, v1alpha1.ReasonBelowDirtyRatio,
		v1alpha1.ReasonNothingToReclaim, v1alpha1.ReasonActiveSegmentOnly, v1alpha1.ReasonMinLagNotReached,
		v1alpha1.ReasonBlockedByOpenTransaction, v1alpha1.ReasonQuarantined, v1alpha1.ReasonCleanerDisabled,
	} {
		if !slices.Contains(known, want) {
			t.Errorf("reason %s is not weighed against the others", want)
		}
	}
}

func TestSummaryOfPartitions(t *testing.T) {
	rows := []*report.Compaction{
		{DirtyRatio: 0.364, Phase: "idle", ReclaimableBytes: new(int64(1 << 20)), LastSuccess: new(1767268800.9)},
		{DirtyRatio: 0.2, Phase: "rewriting", ProgressRatio: 0.5, ReclaimableBytes: new(int64(1 << 20)), LastSuccess: new(1767268900.0)},
		{DirtyRatio: 0.1, Phase: "indexing", ProgressRatio: 0.1, ReclaimableBytes: new(int64(0))},
	}
	got := summarise(rows)
	if got.Dirty != "36%" || got.Phase != "Rewriting" || got.Reclaimable.String() != "2Mi" || *got.ProgressPercent != 30 {
		t.Errorf("dirty %s, phase %s, reclaimable %s, progress %d", got.Dirty, got.Phase, got.Reclaimable, *got.ProgressPercent)
	}
	if want := time.Unix(1767268800, 0); !got.LastCleaned.Time.Equal(want) {
		t.Errorf("last cleaned %s, want the oldest, %s", got.LastCleaned, want)
	}
}

func TestSummaryWithoutKnowledgeIsAbsent(t *testing.T) {
	if got := summarise(nil); got != nil {
		t.Errorf("%+v of no rows", got)
	}
	got := summarise([]*report.Compaction{{Phase: "idle", ReclaimableBytes: new(int64(5))}, {Phase: "idle"}})
	if diff := cmp.Diff(&v1alpha1.CompactionStatus{Dirty: "0%", Phase: "Idle"}, got); diff != "" {
		t.Errorf("one partition does not know what is reclaimable (-want +got): %s", diff)
	}
}

func TestNonsenseOfABrokerStaysReadable(t *testing.T) {
	for ratio, want := range map[float64]int32{math.NaN(): 0, math.Inf(1): 100, -3: 0, 7: 100, 0.005: 1} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%v) = %d, want %d", ratio, got, want)
		}
	}
	got := summarise([]*report.Compaction{{Phase: "dancing", DirtyRatio: math.NaN()}})
	if got.Phase != "Idle" || got.Dirty != "0%" {
		t.Errorf("%+v", got)
	}
}

func TestMergeKeepsWhatLeadersSay(t *testing.T) {
	got := merge([]*report.Partitions{
		{Partitions: []report.Partition{{Broker: 0, Topic: "a", Leader: true}, {Broker: 0, Topic: "b"}}},
		nil,
		{Partitions: []report.Partition{{Broker: 2, Topic: "a", Partition: 1, Leader: true}}},
	})
	if got.asked != 3 || got.answered != 2 || len(got.leaders["a"]) != 2 || len(got.leaders["b"]) != 0 {
		t.Errorf("%+v", got)
	}
}
