package outcome

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/factstest"
	"heartwood.dev/heartwood/internal/operator/claims"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// statusOf contains a LogCluster's status to which outcomes are written one after the other.
type statusOf struct {
	t        *testing.T
	scope    *facts.Facts
	outcomes Outcomes
	status   v1alpha1.LogClusterStatus
	now      time.Time
}

func newStatus(t *testing.T) *statusOf {
	return &statusOf{t: t, scope: factstest.Outdated(),
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// put stores an outcome some time after the last one, and writes it to the status. It checks that
// condition RollingOut has the given reason, and a message that contains all given texts.
func (s *statusOf) put(after time.Duration, o Outcome, reason string, texts ...string) {
	s.t.Helper()
	s.now = s.now.Add(after)
	key := types.NamespacedName{Name: "main"}
	if s.outcomes.Put(key, o, s.now) {
		last, _ := s.outcomes.Get(key)
		last.Describe(s.scope, &s.status, s.now)
	}
	got := meta.FindStatusCondition(s.status.Conditions, v1alpha1.ConditionRollingOut)
	if got == nil || got.Reason != reason ||
		(got.Status == metav1.ConditionFalse) != (reason == v1alpha1.ReasonComplete) {
		s.t.Fatalf("RollingOut is %+v, want reason %s", got, reason)
	}
	for _, text := range texts {
		if !strings.Contains(got.Message, text) {
			s.t.Errorf("%q does not contain %q", got.Message, text)
		}
	}
}

func decided(decision rollout.Decision) Outcome {
	return Outcome{Decided: true, Step: Step{Decision: decision}}
}

func refused(broker int32, refusal string) Outcome {
	o := decided(rollout.Decision{Phase: rollout.Restart, Broker: broker, Outdated: 3})
	o.Step.Refusal = refusal
	return o
}

// unready makes a broker's pod not ready.
func (s *statusOf) unready(id int32) { s.scope.Pod(id).Status.Conditions = nil }

func TestUpdateThatWaitsForTheSameIsStuck(t *testing.T) {
	s := newStatus(t)
	for minute := range 12 {
		reason := v1alpha1.ReasonWaiting
		if minute >= 10 {
			reason = v1alpha1.ReasonStuck
		}
		s.put(time.Minute, refused(2, fmt.Sprintf("Broker %d did not say.", minute%3)), reason,
			fmt.Sprintf("Broker %d did not say.", minute%3))
	}
	s.put(time.Minute, refused(1, "Broker 0 did not say."), v1alpha1.ReasonWaiting)
}

func TestFailedApplyKeepsRollingOut(t *testing.T) {
	s := newStatus(t)
	s.put(0, decided(rollout.Decision{Phase: rollout.Restart, Broker: 2, Outdated: 3}),
		v1alpha1.ReasonRestarting, "Broker 2")
	s.put(time.Second, Outcome{Failure: "accept the spec: no"}, v1alpha1.ReasonRestarting,
		"Broker 2")
	applied := meta.FindStatusCondition(s.status.Conditions, v1alpha1.ConditionApplied)
	if applied.Status != metav1.ConditionFalse {
		t.Errorf("Applied is %+v", applied)
	}

	s = newStatus(t)
	s.outcomes.Put(types.NamespacedName{Name: "main"}, Outcome{Failure: "no"}, s.now)
	last, _ := s.outcomes.Get(types.NamespacedName{Name: "main"})
	last.Describe(s.scope, &s.status, s.now)
	if c := meta.FindStatusCondition(s.status.Conditions,
		v1alpha1.ConditionRollingOut); c != nil {
		t.Errorf("RollingOut is %+v before anything was decided", c)
	}
}

func TestRestartIsShownUntilThePodIsReady(t *testing.T) {
	s := newStatus(t)
	waits := decided(rollout.Decision{Phase: rollout.Waiting, Broker: 2, Outdated: 2})
	s.put(0, decided(rollout.Decision{Phase: rollout.Restart, Broker: 2, Outdated: 3}),
		v1alpha1.ReasonRestarting)
	deleted := s.scope.Pods[2]
	s.scope = s.scope.WithoutPod(deleted.UID)
	s.put(time.Second, waits, v1alpha1.ReasonRestarting, "Broker 2", "outdated pod: 2")
	s.put(restartsWithin, waits, v1alpha1.ReasonWaiting, "has not created the pod of broker 2",
		"kubectl describe statefulset")
	s.scope.Pods = append(s.scope.Pods, deleted)
	s.unready(2)
	s.put(time.Second, waits, v1alpha1.ReasonWaiting, "is not ready", "kubectl describe pod")
	s.put(stuckAfter, waits, v1alpha1.ReasonStuck, "is not ready")
	s.scope.Pod(2).Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
		Status: corev1.ConditionTrue}}
	s.put(time.Second, decided(rollout.Decision{Phase: rollout.Restart, Broker: 1, Outdated: 2}),
		v1alpha1.ReasonRestarting, "Broker 1")

	// Broker 0 is the last one to be restarted.
	s.unready(0)
	s.put(time.Second, decided(rollout.Decision{Phase: rollout.Waiting, Broker: 0}),
		v1alpha1.ReasonRestarting)
	s.put(time.Second, decided(rollout.Decision{Phase: rollout.Complete, Broker: -1}),
		v1alpha1.ReasonComplete)
}

// TestScalingUpIsNoRollingUpdate checks that a change of the StatefulSet's number of replicas does
// not count as a rolling update, although the pods of new brokers are not ready.
func TestScalingUpIsNoRollingUpdate(t *testing.T) {
	s := newStatus(t)
	s.put(0, decided(rollout.Decision{Phase: rollout.Complete, Broker: -1}),
		v1alpha1.ReasonComplete)
	s.put(time.Second, decided(rollout.Decision{Phase: rollout.Waiting, Broker: -1}),
		v1alpha1.ReasonObserving)
	s.put(time.Second, decided(rollout.Decision{Phase: rollout.Waiting, Broker: 3}),
		v1alpha1.ReasonComplete)
	s.put(stuckAfter, decided(rollout.Decision{Phase: rollout.Waiting, Broker: 3}),
		v1alpha1.ReasonComplete)
}

func TestPauseDuringTheLastRestartEnds(t *testing.T) {
	s := newStatus(t)
	paused := func(decision rollout.Decision) Outcome {
		o := decided(decision)
		o.Paused = true
		return o
	}
	s.put(0, decided(rollout.Decision{Phase: rollout.Restart, Broker: 0, Outdated: 1}),
		v1alpha1.ReasonRestarting)
	s.unready(0)
	s.put(time.Second, paused(rollout.Decision{Phase: rollout.Waiting, Broker: 0}),
		v1alpha1.ReasonPaused)
	s.put(time.Second, paused(rollout.Decision{Phase: rollout.Complete, Broker: -1}),
		v1alpha1.ReasonComplete)
}

// TestPauseHoldsUpTheReplacementOfVolumes checks a paused LogCluster in which every pod has the
// latest template, but a volume does not have the spec's StorageClass.
func TestPauseHoldsUpTheReplacementOfVolumes(t *testing.T) {
	s := newStatus(t)
	for i := range s.scope.Pods {
		s.scope.Pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = "second"
	}
	s.scope.Cluster.Spec.Storage.ClassName = new("fast")
	applied := facts.Applied{}
	applied.Volumes.Claims = []claims.Claim{{Broker: 0, Class: "fast", Bound: true},
		{Broker: 1, Class: "slow", Bound: true}}
	paused := Outcome{Decided: true, Paused: true, Step: Step{Decision: PausedStep(s.scope, applied)}}
	s.put(0, paused, v1alpha1.ReasonPaused)
	applied.Volumes.Claims[1].Class = "fast"
	paused.Step.Decision = PausedStep(s.scope, applied)
	s.put(time.Second, paused, v1alpha1.ReasonComplete)
}
