package opmetrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

func TestRebalanceMetricsShowTheRun(t *testing.T) {
	idle := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "idle"}}
	moving := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "moving"}}
	moving.Status.Rebalance = &v1alpha1.RebalanceStatus{Phase: v1alpha1.RebalanceMoving,
		Moves: 5, MovesDone: 3, BytesDone: 1 << 30, BytesTotal: 2 << 30}
	reader := fakeapi.Builder(t, idle, moving).Build()
	want := `
# HELP heartwood_logcluster_rebalance_completed_moves Number of completed moves of the present or last run.
# TYPE heartwood_logcluster_rebalance_completed_moves gauge
heartwood_logcluster_rebalance_completed_moves{logcluster="idle",namespace="n"} 0
heartwood_logcluster_rebalance_completed_moves{logcluster="moving",namespace="n"} 3
# HELP heartwood_logcluster_rebalance_copied_bytes Bytes that the present or last run has copied.
# TYPE heartwood_logcluster_rebalance_copied_bytes gauge
heartwood_logcluster_rebalance_copied_bytes{logcluster="idle",namespace="n"} 0
heartwood_logcluster_rebalance_copied_bytes{logcluster="moving",namespace="n"} 1.073741824e+09
`
	if err := testutil.CollectAndCompare(&clusters{reader}, strings.NewReader(want),
		"heartwood_logcluster_rebalance_completed_moves",
		"heartwood_logcluster_rebalance_copied_bytes"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(&clusters{reader}); err != nil ||
		len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestReplicationMetricsShowTheStatus checks the metrics of replication. A broker exports only the
// state of partitions that it leads, so only the operator can export the number of partitions
// without a leader.
func TestReplicationMetricsShowTheStatus(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	cluster.Status.UnderReplicatedPartitions, cluster.Status.LeaderlessPartitions = 5, 2
	reader := fakeapi.Builder(t, cluster).Build()
	want := `
# HELP heartwood_logcluster_leaderless_partitions Number of partitions of a LogCluster without a leader.
# TYPE heartwood_logcluster_leaderless_partitions gauge
heartwood_logcluster_leaderless_partitions{logcluster="c",namespace="n"} 2
# HELP heartwood_logcluster_under_replicated_partitions Number of partitions of a LogCluster without a leader or with a replica that is not in sync.
# TYPE heartwood_logcluster_under_replicated_partitions gauge
heartwood_logcluster_under_replicated_partitions{logcluster="c",namespace="n"} 5
`
	if err := testutil.CollectAndCompare(&clusters{reader}, strings.NewReader(want),
		"heartwood_logcluster_leaderless_partitions",
		"heartwood_logcluster_under_replicated_partitions"); err != nil {
		t.Error(err)
	}
}

// TestWaitOutsideTheWindowIsNoActiveRun checks that a run does not count as active while it is
// paused or waits for its window. Such a run makes no progress for hours although nothing is wrong.
func TestWaitOutsideTheWindowIsNoActiveRun(t *testing.T) {
	oClock := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	night := &v1alpha1.Rebalance{Window: &v1alpha1.Window{Start: "22:00", End: "05:00"}}
	for _, test := range []struct {
		phase  v1alpha1.RebalancePhase
		spec   *v1alpha1.Rebalance
		paused bool
		hour   int
		want   bool
	}{
		{"", nil, false, 12, false},
		{v1alpha1.RebalanceDone, nil, false, 12, false},
		{v1alpha1.RebalanceBlocked, nil, false, 12, false},
		{v1alpha1.RebalanceMoving, nil, false, 12, true},
		{v1alpha1.RebalanceMoving, nil, true, 12, false},
		{v1alpha1.RebalanceMoving, night, false, 12, true},
		{v1alpha1.RebalanceCancelling, night, false, 12, true},
		{v1alpha1.RebalanceWaiting, nil, false, 12, true},
		{v1alpha1.RebalanceWaiting, &v1alpha1.Rebalance{}, false, 12, true},
		{v1alpha1.RebalanceWaiting, night, false, 12, false},
		{v1alpha1.RebalanceWaiting, night, false, 23, true},
	} {
		cluster := &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{Rebalance: test.spec}}
		if test.paused {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		}
		run := &v1alpha1.RebalanceStatus{Phase: test.phase}
		if got := rebalances(cluster, run, oClock(test.hour)); got != test.want {
			t.Errorf("%+v: got %t", test, got)
		}
	}
}
