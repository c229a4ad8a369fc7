package cli

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// testBalance: both partitions are on broker 0 of three. The broker of the test serves the reports
// of broker 0 only, so the others are removed from the LogCluster for the plan.
func (f *fixture) testBalance(t *testing.T) {
	f.testRebalanceBalanced(t)
	f.golden(t, "rebalance-cancel.txt", f.run(t, "rebalance", "--cancel", "--yes").ok(t))
	if got := f.rebalanceRequest(t); got != v1alpha1.RebalanceCancel {
		t.Errorf("annotation %q", got)
	}
	f.run(t, "drain", "0", "--yes").fails(t, "cannot leave broker 0: no other broker may take it")
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

// testRebalanceBalanced: a run can be requested although the plan contains no move, because the
// plan contains no rates.
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

// rebalanceRequest returns the value of the annotation that requests a run.
func (f *fixture) rebalanceRequest(t *testing.T) string {
	t.Helper()
	return get(t, f, "main", &v1alpha1.LogCluster{}).Annotations[v1alpha1.AnnotationRebalance]
}

// testBalancePaused: while the LogCluster is paused, the plans say so.
func (f *fixture) testBalancePaused(t *testing.T) {
	f.run(t, "pause", "--yes").ok(t)
	for _, args := range [][]string{{"rebalance"}, {"rebalance", "--cancel"}} {
		if out := f.run(t, append(args, "--dry-run")...).ok(t); !strings.Contains(out, pausedStep) {
			t.Errorf("%v: %q", args, out)
		}
	}
	f.run(t, "resume", "--yes").ok(t)
}
