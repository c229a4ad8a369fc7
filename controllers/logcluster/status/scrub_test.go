package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestEachFindingIsReportedOnce checks a sequence of statuses of a broker: a finding is new when it
// is found and when it is repaired, but not when later rounds find it again.
func TestEachFindingIsReportedOnce(t *testing.T) {
	found := metav1.NewTime(time.UnixMilli(1_700_000_000_400))
	index := v1alpha1.ScrubFinding{Partition: "tickets-0", File: "tickets-0/7.index", Position: 8,
		Problem: "does not ascend", FoundTime: found}
	data := v1alpha1.ScrubFinding{File: "cleaner-history", Problem: "line 3 is not JSON",
		FoundTime: found}
	repaired := index
	repaired.RepairedTime = &found
	again := index
	again.FoundTime = metav1.NewTime(found.Add(time.Hour))
	rounded := index // the finding as read from JSON
	rounded.FoundTime = metav1.Unix(found.Unix(), 0)
	var before []v1alpha1.BrokerStatus
	for i, step := range []struct {
		findings []v1alpha1.ScrubFinding
		want     []string
	}{
		{[]v1alpha1.ScrubFinding{index},
			[]string{"found on broker 4, partition tickets-0, file tickets-0/7.index, position 8"}},
		{[]v1alpha1.ScrubFinding{rounded}, nil},
		{[]v1alpha1.ScrubFinding{index, data},
			[]string{"broker 4, partition none (data directory), file cleaner-history"}},
		{[]v1alpha1.ScrubFinding{data, repaired}, []string{"Damage at rest was repaired on broker 4"}},
		{[]v1alpha1.ScrubFinding{data, repaired}, nil},
		{[]v1alpha1.ScrubFinding{data, repaired, again}, []string{"Damage at rest was found on"}},
		{nil, nil},
	} {
		after := []v1alpha1.BrokerStatus{{ID: 4, Scrub: &v1alpha1.BrokerScrub{State: "Waiting",
			Findings: step.findings}}, {ID: 5}}
		got := newFindings(before, after)
		if len(got) != len(step.want) {
			t.Errorf("step %d: got %+v, want %v", i, got, step.want)
			continue
		}
		for j := range got {
			if !strings.Contains(got[j].Text, step.want[j]) {
				t.Errorf("step %d: got %q, want %q", i, got[j].Text, step.want[j])
			}
		}
		before = after
	}
}

// TestScrubOfARestartedBrokerRemains checks that a Lease without a report, from a broker that has
// just started, does not remove the last report. Otherwise the findings in this report would later
// count as new.
func TestScrubOfARestartedBrokerRemains(t *testing.T) {
	cluster := &v1alpha1.LogCluster{}
	cluster.Status.Brokers = []v1alpha1.BrokerStatus{{ID: 0}, {ID: 1,
		Scrub: &v1alpha1.BrokerScrub{State: "Waiting"}}}
	if got := lastScrub(cluster, 1); got == nil || got.State != "Waiting" {
		t.Errorf("got %+v", got)
	}
	if got := lastScrub(cluster, 2); got != nil {
		t.Errorf("got %+v for a new broker", got)
	}
}
