package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

func (f *fixture) testTopics(t *testing.T) {
	f.golden(t, "topics.txt", f.run(t, "topics").ok(t))
	f.golden(t, "topics.json", f.run(t, "topics", "-o", "json").ok(t))
	f.testTopicsAgree(t)
}

// testTopicsAgree checks that the commands topics and status have the same exit code for the same
// state of a Topic.
func (f *fixture) testTopicsAgree(t *testing.T) {
	before := get(t, f, "tickets", &v1alpha1.Topic{}).Status
	for reason, degraded := range map[string]bool{v1alpha1.ReasonReassigning: false,
		v1alpha1.ReasonUnderReplicated: true} {
		change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
			topic.Status = *before.DeepCopy()
			topic.Status.UnderReplicatedPartitions = 1
			topic.Status.Conditions = append(topic.Status.Conditions, condition("Replicated", "False",
				reason, ""))
			topic.Status.Problems = []v1alpha1.PartitionProblem{{Partition: 0, Reason: reason}}
		})
		for _, command := range []string{"topics", "status"} {
			if r := f.run(t, command); degraded {
				r.degraded(t)
			} else {
				r.ok(t)
			}
		}
	}
	change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) { topic.Status = before })
}

// testPressure checks that commands brokers, topics and status show a volume that is almost full.
func (f *fixture) testPressure(t *testing.T) {
	before := get(t, f, "main", &v1alpha1.LogCluster{}).Status
	const message = "Broker 0 is at level Reject"
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.Brokers[0].Volume.Pressure = v1alpha1.PressureReject
		c.Status.Conditions = append(c.Status.Conditions, condition("StoragePressure", "True",
			v1alpha1.PressureReject, message))
	})
	for _, command := range []string{"brokers", "topics", "status"} {
		r := f.run(t, command)
		if out := r.degraded(t); !strings.Contains(out,
			"critical: LogCluster main: Reject: "+message) {
			t.Errorf("%s:\n%s", command, out)
		}
	}
	if out := f.run(t, "brokers").degraded(t); !strings.Contains(out, "  Reject  ") {
		t.Errorf("brokers:\n%s", out)
	}
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) { c.Status = before })
}

// testLeaderless checks that why reports a degraded state if a partition has no leader. The test's
// broker does not lead the partition of this Topic.
func (f *fixture) testLeaderless(t *testing.T) {
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "leaderless"},
		Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: 1}}
	topic.Spec.CleanupPolicy = v1alpha1.CleanupCompact
	f.create(t, topic)
	out := f.run(t, "why", "leaderless").degraded(t)
	if !strings.Contains(out, "0           -1       -       -         NoLeader") {
		t.Errorf("why:\n%s", out)
	}
	if err := f.api.Delete(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}

// TestPartitionsWithoutALeaderAreShown checks that partitions without a leader are included, in the
// order of the partitions.
func TestPartitionsWithoutALeaderAreShown(t *testing.T) {
	rows := []report.Partition{{Partition: 0, Broker: 2}, {Partition: 1, Broker: 2},
		{Partition: 1, Broker: 3, Leader: true}}
	failed := why{Partition: 0, Broker: 2, Reason: v1alpha1.ReasonQuarantined, Degraded: true}
	leader := why{Partition: 1, Broker: 3, Leader: true, Reason: v1alpha1.ReasonUpToDate}
	var got []string
	for _, w := range withLeaderless([]why{failed, leader}, rows, 3) {
		got = append(got, fmt.Sprintf("%d %d %s %t", w.Partition, w.Broker, w.Reason, w.Degraded))
	}
	want := []string{"0 2 Quarantined true", "0 -1 NoLeader true", "1 3 UpToDate false",
		"2 -1 NoLeader true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
