package cli

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func (f *fixture) testApprove(t *testing.T) {
	if out := f.run(t, "approve", "--yes").ok(t); !strings.Contains(out, "no approval is needed") {
		t.Errorf("policy Automatic: %q", out)
	}
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	before := cluster.DeepCopy()
	cluster.Spec.Rollout = &v1alpha1.Rollout{Policy: v1alpha1.RolloutOnApproval,
		Window: &v1alpha1.Window{Start: "01:00", End: "05:00"}}
	if err := f.api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.UpdateRevision = "main-broker-5d4f"
		c.Status.Brokers[0].RestartReason = v1alpha1.RestartTemplateChanged
	})
	f.run(t, "approve", "--yes").fails(t, "has not applied the latest spec")
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.ObservedGeneration = c.Generation
	})
	f.golden(t, "approve.txt", f.run(t, "approve", "--dry-run").ok(t))
	f.run(t, "approve", "--yes").ok(t)
	cluster = get(t, f, "main", &v1alpha1.LogCluster{})
	if !cluster.RolloutApproved("main-broker-5d4f") || cluster.RolloutApproved("main-broker-6c3e") {
		t.Errorf("the annotations are %v", cluster.Annotations)
	}
	if out := f.run(t, "approve", "--yes").ok(t); !strings.Contains(out, "no approval is needed") {
		t.Errorf("approved twice: %q", out)
	}
	cluster.Spec.Rollout = nil
	if err := f.api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status = before.Status
		c.Status.ObservedGeneration = c.Generation
	})
}
