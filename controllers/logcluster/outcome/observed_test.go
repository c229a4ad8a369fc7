package outcome

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/factstest"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// TestOneRestartWithAnOutdatedCache checks that Next waits for broker 2, and does not restart
// another broker, while the cache still contains the deleted pod of broker 2 after its restart.
func TestOneRestartWithAnOutdatedCache(t *testing.T) {
	s := factstest.Outdated()
	first := rollout.Next(s.RolloutState(facts.Applied{}))
	if first.Phase != rollout.Restart || first.Broker != 2 {
		t.Fatalf("got %+v, want a restart of broker 2", first)
	}
	s = s.WithoutPod(s.Pod(2).UID)
	want := rollout.Decision{Phase: rollout.Waiting, Broker: 2, Outdated: 2}
	if got := rollout.Next(s.RolloutState(facts.Applied{})); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAppliedTemplateIsNotObserved checks that condition RollingOut is True if the operator has
// applied another template, but the cache still contains the earlier StatefulSet.
func TestAppliedTemplateIsNotObserved(t *testing.T) {
	s := factstest.Outdated()
	for i := range s.Pods {
		s.Pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = "second"
	}
	for applied, want := range map[int64]string{2: v1alpha1.ReasonComplete,
		3: v1alpha1.ReasonObserving} {
		state := s.RolloutState(facts.Applied{Brokers: &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{UID: "brokers", Generation: applied}}})
		now := time.Now()
		o := Outcome{Step: Step{Decision: rollout.Next(state)}, Decided: true, since: now}
		if got := o.rollingOutCondition(s, nil, now); got.Reason != want {
			t.Errorf("applied generation %d: got %+v, want reason %s", applied, got, want)
		}
	}
}

// TestRecreatedStatefulSetIsNotObserved checks that Next waits if the operator has created the
// StatefulSet again, but the cache still contains the deleted one.
func TestRecreatedStatefulSetIsNotObserved(t *testing.T) {
	s := factstest.Outdated()
	applied := facts.Applied{Brokers: &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{UID: "others", Generation: 1}}}
	if got := rollout.Next(s.RolloutState(applied)); got.Phase != rollout.Waiting || got.Broker != -1 {
		t.Errorf("got %+v, want it to wait", got)
	}
}
