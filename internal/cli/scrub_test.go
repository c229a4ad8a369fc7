package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

// testScrub requests scrubs, and plays the broker that performs them.
func (f *fixture) testScrub(t *testing.T) {
	f.run(t, "scrub", "a", "b").fails(t, "give at most one TOPIC")
	f.run(t, "scrub", "unknown").fails(t, "topic unknown in namespace")
	f.run(t, "scrub", "unknown", "--now").fails(t, "topic unknown in namespace")
	if out := f.run(t, "scrub").degraded(t); !strings.Contains(out, "0        true    unknown") {
		t.Errorf("without a report: %q", out)
	}
	if out := f.run(t, "scrub", "--now").ok(t); !strings.Contains(out, "everything: requested") {
		t.Errorf("scrub --now: %q", out)
	}
	before := f.scrubRequest(t)
	done := make(chan result, 1)
	go func() { done <- runAs(t.Context(), f.kubeconfig, "", "scrub", "logs", "--now", "-w") }()
	value := ""
	await.Until(t, "another request", func() bool {
		value = f.scrubRequest(t)
		return value != before
	})
	if !strings.HasPrefix(value, "Logs=kubectl-") {
		t.Errorf("request %q, want the name in Kafka", value)
	}
	found := metav1.NewTime(time.Now().Add(-2 * time.Hour))
	scrub := &v1alpha1.BrokerScrub{State: v1alpha1.ScrubStateRunning, CheckedSinceTime: &found,
		CheckedPercent: 40, Damaged: 1, Requested: value,
		RequestState: v1alpha1.ScrubRequestRunning,
		Findings: []v1alpha1.ScrubFinding{
			{Partition: "Logs-0", File: "Logs-0/00000000000000000000.log", Position: 7,
				Problem: "corrupt record batch: checksum", FoundTime: found},
			{Partition: "Logs-1-0", File: "Logs-1-0/00000000000000000000.index", Position: 8,
				Problem: "does not ascend", FoundTime: found, RepairedTime: &found}}}
	f.reportScrub(t, scrub)
	scrub.RequestState = v1alpha1.ScrubRequestDone
	f.reportScrub(t, scrub)
	out := (<-done).degraded(t)
	if !strings.Contains(out, "broker 0: checked\n") ||
		!strings.Contains(out, "0        true    Running   2h         40%     1") ||
		!strings.Contains(out, "Logs-0/00000000000000000000.log   7") ||
		strings.Contains(out, "Logs-1-0") {
		t.Errorf("scrub --now -w:\n%s", out)
	}
	var got struct{ Brokers []brokerScrub }
	if err := json.Unmarshal([]byte(f.run(t, "scrub", "-o", "json").degraded(t)),
		&got); err != nil || len(got.Brokers) != 1 || len(got.Brokers[0].Scrub.Findings) != 2 {
		t.Errorf("%v: %+v", err, got)
	}
	if out := f.run(t, "brokers").ok(t); !strings.Contains(out, "None       2h         1") {
		t.Errorf("brokers:\n%s", out)
	}
	f.testScrubOff(t)
}

func (f *fixture) testScrubOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan result, 1)
	go func() { done <- runAs(ctx, f.kubeconfig, "", "scrub", "--now", "-w") }()
	before := f.scrubRequest(t)
	await.Until(t, "a request", func() bool { return f.scrubRequest(t) != before })
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Scrub = &v1alpha1.Scrub{Interval: v1alpha1.ScrubNever}
	f.update(t, cluster)
	(<-done).fails(t, "the scrub of LogCluster main is off")
	cancel()
	f.run(t, "scrub", "--now").fails(t, "set spec.scrub.interval")
	cluster = get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Scrub = nil
	f.update(t, cluster)
	f.reportScrub(t, nil)
}

func (f *fixture) scrubRequest(t *testing.T) string {
	t.Helper()
	_, value := get(t, f, "main", &v1alpha1.LogCluster{}).ScrubNow()
	return value
}

func (f *fixture) reportScrub(t *testing.T, scrub *v1alpha1.BrokerScrub) {
	t.Helper()
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.Brokers[0].Scrub = scrub.DeepCopy()
	})
}
