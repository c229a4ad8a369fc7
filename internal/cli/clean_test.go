package cli

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

// testCleanJSON checks that the output names the Topic and the request's value, with and without
// --wait.
func (f *fixture) testCleanJSON(t *testing.T) {
	var got struct{ Topic, Value, State, Replicas string }
	decode(t, f.run(t, "clean", "tickets", "-o", "json").ok(t), &got)
	value := get(t, f, "tickets", &v1alpha1.Topic{}).CleanNow()
	if got.Topic != "tickets" || got.Value != value {
		t.Errorf("clean: %+v, want value %s", got, value)
	}
	got.Topic, got.Value = "", ""
	done := f.awaitClean(t.Context(), t, "-o", "json")
	asked := f.reportClean(t, value)
	decode(t, (<-done).ok(t), &got)
	if got.Topic != "tickets" || got.Value != asked || got.State != "Done" ||
		got.Replicas != "2/2" {
		t.Errorf("clean --wait: %+v, want value %s", got, asked)
	}
}

// testCleanDisabled checks that the command with --wait fails if the cleaner is disabled. If the
// LogCluster has cleaner workers, the brokers' reports are only outdated, so the command must wait.
func (f *fixture) testCleanDisabled(t *testing.T) {
	change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
		meta.SetStatusCondition(&topic.Status.Conditions, condition(v1alpha1.ConditionCompacting,
			"False", v1alpha1.ReasonCleanerDisabled, "The cleaner is disabled."))
	})
	f.setCleaner(t, &v1alpha1.Cleaner{Workers: new(int32(0))})
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	(<-f.awaitClean(ctx, t)).fails(t, "the cleaner of LogCluster main is disabled: set "+
		"spec.cleaner.workers")
	asked := get(t, f, "tickets", &v1alpha1.Topic{}).CleanNow()
	f.setCleaner(t, nil)
	done := f.awaitClean(ctx, t)
	f.reportClean(t, asked)
	if out := (<-done).ok(t); !strings.HasSuffix(out, "tickets: done, 2/2 replicas cleaned\n") {
		t.Errorf("clean --wait: %q", out)
	}
	change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
		meta.SetStatusCondition(&topic.Status.Conditions, condition(v1alpha1.ConditionCompacting,
			"True", v1alpha1.ReasonCleaning, ""))
	})
}

// setCleaner sets spec.cleaner.
func (f *fixture) setCleaner(t *testing.T, cleaner *v1alpha1.Cleaner) {
	t.Helper()
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Cleaner = cleaner
	f.update(t, cluster)
}

// awaitClean runs a clean of topic tickets with --wait in the background.
func (f *fixture) awaitClean(ctx context.Context, t *testing.T, args ...string) chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		done <- runAs(ctx, f.kubeconfig, "", append([]string{"clean", "tickets", "--wait"},
			args...)...)
	}()
	return done
}

// reportClean waits for a request whose value differs from before, and sets its state in the status
// to completed.
func (f *fixture) reportClean(t *testing.T, before string) (value string) {
	t.Helper()
	await.Until(t, "the Topic has a new annotation", func() bool {
		value = get(t, f, "tickets", &v1alpha1.Topic{}).CleanNow()
		return value != "" && value != before
	})
	change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
		topic.Status.Compaction.CleanNow = &v1alpha1.CleanNowStatus{Value: value,
			State: v1alpha1.CleanNowDone, Replicas: "2/2"}
	})
	return value
}
