package cli

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// testBalance checks the plan for two partitions on the same broker. Only broker 0 of three brokers
// runs, so the test removes the others from the LogCluster first.
func (f *fixture) testBalance(t *testing.T) {
	f.testRebalanceBalanced(t)
	f.golden(t, "rebalance-cancel.txt", f.run(t, "rebalance", "--cancel", "--yes").ok(t))
	if got := f.rebalanceRequest(t); got != v1alpha1.RebalanceCancel {
		t.Errorf("annotation %q", got)
	}
	f.run(t, "drain", "0", "--yes").fails(t, "cannot leave broker 0: every other broker has a replica")
	f.run(t, "drain", "1", "--yes").fails(t, "has the brokers 0 to 0")
	f.run(t, "cordon").fails(t, "give the id of a BROKER")
	f.run(t, "cordon", "0", "--yes").ok(t)
	if ids := get(t, f, "main", &v1alpha1.LogCluster{}).Spec.Cordoned; len(ids) != 1 {
		t.Errorf("cordoned %v", ids)
	}
	f.run(t, "cordon", "0", "--undo", "--yes").ok(t)
	if ids := get(t, f, "main", &v1alpha1.LogCluster{}).Spec.Cordoned; len(ids) != 0 {
		t.Errorf("cordoned after the end: %v", ids)
	}
}

// testRebalanceBalanced checks that a rebalance run can be requested even if the plan contains no
// moves, because the plan does not consider producer rates.
func (f *fixture) testRebalanceBalanced(t *testing.T) {
	f.run(t, "rebalance").fails(t, "confirm the plan with --yes")
	if out := f.run(t, "rebalance", "--dry-run").ok(t); !strings.Contains(out, balancedStep) {
		t.Errorf("plan: %q", out)
	}
	if got := f.rebalanceRequest(t); got != "" {
		t.Errorf("a dry run has set annotation %q", got)
	}
	f.run(t, "rebalance", "--yes").ok(t)
	if f.rebalanceRequest(t) == "" {
		t.Error("no annotation")
	}
}

// rebalanceRequest returns the value of the annotation that requests a rebalance run.
func (f *fixture) rebalanceRequest(t *testing.T) string {
	t.Helper()
	return get(t, f, "main", &v1alpha1.LogCluster{}).Annotations[v1alpha1.AnnotationRebalance]
}

// testBalancePaused checks that the plans mention that the LogCluster is paused.
func (f *fixture) testBalancePaused(t *testing.T) {
	f.run(t, "pause", "--yes").ok(t)
	for _, args := range [][]string{{"rebalance"}, {"rebalance", "--cancel"}} {
		if out := f.run(t, append(args, "--dry-run")...).ok(t); !strings.Contains(out, pausedStep) {
			t.Errorf("%v: %q", args, out)
		}
	}
	f.run(t, "resume", "--yes").ok(t)
}

// testDrainDown checks that a broker that is down can be drained. Broker 1, which does not run, has
// the only replica of logs/0, so no broker reports the size of logs/0.
func (f *fixture) testDrainDown(t *testing.T) {
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Brokers = 2
	cluster.Annotations[v1alpha1.AnnotationPaused] = "true"
	f.update(t, cluster)
	set := get(t, f, "main-0", &v1alpha1.PartitionSet{})
	set.Spec.Assignments["logs/0"] = "1 abcdefgh"
	f.update(t, set)
	r := f.run(t, "drain", "1", "--dry-run")
	for _, want := range []string{"set spec.drain of LogCluster main to [1]",
		"copy the replica of logs/0 from broker 1 to broker 0", "broker 1 did not answer: partitions " +
			"without a replica on another broker that is up: 1; they wait until the broker is back",
		pausedStep} {
		if out := r.ok(t); !strings.Contains(out, want) {
			t.Errorf("no %q in the plan:\n%s", want, out)
		}
	}
	if !strings.Contains(r.errOut, "broker 1 did not answer: ") {
		t.Errorf("standard error: %q", r.errOut)
	}
	f.run(t, "rebalance", "--yes").fails(t,
		"the size of partition logs/0 is unknown: broker 1 did not answer")
	delete(set.Spec.Assignments, "logs/0")
	f.update(t, set)
	cluster.Spec.Brokers = 1
	delete(cluster.Annotations, v1alpha1.AnnotationPaused)
	f.update(t, cluster)
}

// TestSizesWithoutLeader checks that the size of a partition whose leader has not responded is the
// size of its largest replica. It must be added to every broker that has a replica and has not
// responded.
func TestSizesWithoutLeader(t *testing.T) {
	row := func(index, broker int32, size int64, leader bool) report.Partition {
		return report.Partition{Topic: "t", Partition: index, Broker: broker, SizeBytes: size,
			Leader: leader}
	}
	rows := []report.Partition{row(0, 0, 9, false), row(0, 1, 7, true), row(0, 2, 8, false),
		row(1, 0, 5, false), row(1, 1, 6, false), row(1, 2, 4, false)}
	got := sizes(rows)
	for index, want := range []int64{7, 6} {
		if size := got[partitionset.Key{Topic: "t", Index: int32(index)}]; size != want {
			t.Errorf("partition %d: %d bytes, want %d", index, size, want)
		}
	}
	planned := []balance.Partition{{Topic: "t", Bytes: 7, Replicas: []int32{1, 2}},
		{Topic: "t", Index: 1, Bytes: 6, Replicas: []int32{3, 0}},
		{Topic: "t", Index: 2, Bytes: unknownBytes, Replicas: []int32{3}}}
	held := stored(rows, planned, []silent{{Broker: 3}})
	if held[0] != 14 || held[1] != 13 || held[3] != 6 || planned[2].Bytes != 0 {
		t.Errorf("stored %v, planned %+v", held, planned)
	}
}

// TestSilentBroker checks that a plan fails because a broker does not respond only if the broker is
// not being drained and a size is unknown.
func TestSilentBroker(t *testing.T) {
	cluster := &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{Brokers: 3, Drain: []int32{2}}}
	known := balance.Partition{Topic: "t", Bytes: 7, Replicas: []int32{1, 2}}
	unknown := balance.Partition{Topic: "t", Index: 1, Bytes: unknownBytes, Replicas: []int32{2}}
	both := balance.Partition{Topic: "t", Index: 2, Bytes: unknownBytes, Replicas: []int32{2, 1}}
	for _, test := range []struct {
		planned []balance.Partition
		silent  int32
		note    string // "": the plan fails
	}{
		{[]balance.Partition{known, unknown}, 1, "broker 1 did not answer: no move begins"},
		{[]balance.Partition{known, unknown}, 2, "broker 2 did not answer: partitions without"},
		{[]balance.Partition{known}, 2, "broker 2 did not answer: the sizes of its replicas"},
		{[]balance.Partition{known, both}, 1, ""},
	} {
		missing := []silent{{Broker: test.silent}}
		err := answered(cluster, test.planned, missing)
		notes := silentNotes(cluster, test.planned, missing)
		if err == nil != (test.note != "") || len(notes) != 1 || !strings.HasPrefix(notes[0],
			test.note) {
			t.Errorf("%+v: notes %q, error %v", test, notes, err)
		}
	}
}
