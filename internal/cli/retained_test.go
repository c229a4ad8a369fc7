package cli

import (
	"errors"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/test/kit/await"
)

// testRetained checks that retained records are listed, and that they are released for deletion
// only if the user enters the topic's name. The test plays the operator; the brokers are real.
func (f *fixture) testRetained(t *testing.T) {
	if out := f.run(t, "retained").ok(t); out != "TOPIC   ID   PARTITIONS   BROKERS   SIZE   "+
		"RECORDS   STATE\n" {
		t.Errorf("nothing is retained: %q", out)
	}
	f.run(t, "retained", "remove", "orders").fails(t, "no retained records of a deleted topic orders")
	f.retain(t, partitionset.Retained)
	f.golden(t, "retained.txt", f.run(t, "retained").ok(t))
	f.golden(t, "retained.json", f.run(t, "retained", "-o", "json").ok(t))
	r := f.run(t, "retained", "remove", "orders")
	r.fails(t, "give the name of the topic again with --name")
	if !strings.Contains(r.out, "0 B    0         Retained") {
		t.Errorf("what is removed:\n%s", r.out)
	}
	if r := f.run(t, "retained", "remove", "orders", "--name", "order"); !errors.Is(r.err,
		errNotConfirmed) {
		t.Errorf("a wrong name: %v", r.err)
	}
	if got := get(t, f, "main", &v1alpha1.LogCluster{}).GivenUp(); len(got) != 0 {
		t.Fatalf("given up without consent: %v", got)
	}
	f.run(t, "retained", "remove", "orders", "--name", "orders").ok(t)
	want := v1alpha1.GivenUp{Topic: "orders", ID: "k3f9x2ab"}
	if got := get(t, f, "main", &v1alpha1.LogCluster{}).GivenUp(); len(got) != 1 || got[0] != want {
		t.Errorf("given up %v", got)
	}
	runAs(t.Context(), f.restricted, "", "retained").fails(t, "forbidden")
	f.testRemovalIsAwaited(t)
}

// retain sets or removes the entry of partition orders/0.
func (f *fixture) retain(t *testing.T, reclaim partitionset.Reclaim) {
	t.Helper()
	set := get(t, f, "main-0", &v1alpha1.PartitionSet{})
	set.Spec.Assignments["orders/0"] = "0 k3f9x2ab " + string(reclaim)
	if reclaim == "" {
		delete(set.Spec.Assignments, "orders/0")
	}
	if err := f.api.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// setConsent sets the annotation as the operator does.
func (f *fixture) setConsent(t *testing.T, value string) {
	t.Helper()
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	setAnnotation(cluster, v1alpha1.AnnotationRemoveRetained, value)
	if err := f.api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// testRemovalIsAwaited checks that --wait ends when the operator has removed the entries, and fails
// if the operator keeps the records.
func (f *fixture) testRemovalIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		act  func()
		want string
	}{
		"removed": {func() { f.retain(t, partitionset.Remove); f.retain(t, "") }, ""},
		"kept":    {func() { f.setConsent(t, "") }, "the operator has kept the records"},
	} {
		f.setConsent(t, "")
		f.retain(t, partitionset.Retained)
		done := make(chan result, 1)
		go func() {
			done <- runAs(t.Context(), f.kubeconfig, "", "retained", "remove", "orders", "--name",
				"orders", "--wait")
		}()
		await.Until(t, "the LogCluster has the consent", func() bool {
			return len(get(t, f, "main", &v1alpha1.LogCluster{}).GivenUp()) > 0
		})
		c.act()
		r := <-done
		if c.want != "" {
			r.fails(t, c.want)
		} else if out := r.ok(t); !strings.HasSuffix(out, "the retained records are removed\n") {
			t.Errorf("%s: %q", name, out)
		}
	}
	f.retain(t, "")
	f.setConsent(t, "")
}
