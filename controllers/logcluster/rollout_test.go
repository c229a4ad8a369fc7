package logcluster

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// outdatedScope returns the scope of a LogCluster with ready pods of an earlier template.
func outdatedScope() *scope {
	s := &scope{cluster: &v1alpha1.LogCluster{}, brokers: &appsv1.StatefulSet{},
		sets: &sets.Cluster{}, up: map[int32]bool{}}
	s.cluster.Spec.Brokers = 3
	s.brokers.UID, s.brokers.Generation = "brokers", 2
	s.brokers.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: "second"}
	for id := range int32(3) {
		pod := corev1.Pod{}
		pod.Name, pod.UID = v1alpha1.BrokerLeaseName("main", id), types.UID('a'+id)
		pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "first"}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}
		s.pods, s.up[id] = append(s.pods, pod), true
	}
	return s
}

// TestOneRestartWithAnOutdatedCache: after the restart of broker 2 the cache still contains its
// deleted pod. Next must wait for broker 2 and not restart another broker.
func TestOneRestartWithAnOutdatedCache(t *testing.T) {
	s := outdatedScope()
	first := rollout.Next(s.rolloutState())
	if first.Phase != rollout.Restart || first.Broker != 2 {
		t.Fatalf("got %+v, want a restart of broker 2", first)
	}
	s.removePod(s.pod(2).UID)
	want := rollout.Decision{Phase: rollout.Waiting, Broker: 2, Outdated: 2}
	if got := rollout.Next(s.rolloutState()); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAppliedTemplateIsNotObserved: the operator has applied another template, and the cache still
// contains the earlier StatefulSet. Condition RollingOut must be True.
func TestAppliedTemplateIsNotObserved(t *testing.T) {
	s := outdatedScope()
	for i := range s.pods {
		s.pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = "second"
	}
	for applied, want := range map[int64]string{2: v1alpha1.ReasonComplete,
		3: v1alpha1.ReasonObserving} {
		s.applied = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "brokers",
			Generation: applied}}
		now := time.Now()
		o := outcome{step: step{Decision: rollout.Next(s.rolloutState())}, decided: true, since: now}
		if got := o.rollingOutCondition(s, nil, now); got.Reason != want {
			t.Errorf("applied generation %d: got %+v, want reason %s", applied, got, want)
		}
	}
}

// TestRecreatedStatefulSetIsNotObserved: the operator has created the StatefulSet again, and the
// cache still contains the deleted one.
func TestRecreatedStatefulSetIsNotObserved(t *testing.T) {
	s := outdatedScope()
	s.applied = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "others", Generation: 1}}
	if got := rollout.Next(s.rolloutState()); got.Phase != rollout.Waiting || got.Broker != -1 {
		t.Errorf("got %+v, want it to wait", got)
	}
}

// TestReadinessIsTimedByTheOperatorsClock: the clock of a node is an hour or two ahead or behind.
// The ready times that observe returns must be those of the operator's clock.
func TestReadinessIsTimedByTheOperatorsClock(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(uid string, at time.Duration) []corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1", UID: types.UID(uid)}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin.Add(at))}}
		return []corev1.Pod{pod}
	}
	starting := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1", UID: "b"}}}
	main, r := types.NamespacedName{Name: "main"}, readiness{}
	for _, step := range []struct {
		name  string
		after time.Duration
		pods  []corev1.Pod
		since time.Duration // -1: not ready
	}{
		{"first observation, clock ahead", 0, pod("a", time.Hour), 0},
		{"unchanged", 10 * time.Second, pod("a", time.Hour), 0},
		{"ready again", 20 * time.Second, pod("a", time.Hour+5*time.Second), 20 * time.Second},
		{"ready again, clock set back", 30 * time.Second, pod("a", -time.Hour),
			30 * time.Second},
		{"replaced pod, not ready", 40 * time.Second, starting, -1},
		{"ready, clock behind", 50 * time.Second, pod("b", -2*time.Hour),
			50 * time.Second},
		{"deleted", time.Minute, nil, -1},
		{"observed again", 2 * time.Minute, pod("b", -2*time.Hour), 2 * time.Minute},
	} {
		since, ready := r.observe(main, step.pods, begin.Add(step.after))[1]
		if ready != (step.since >= 0) || ready && !since.Equal(begin.Add(step.since)) {
			t.Errorf("%s: got ready %t since %v, want since %v", step.name, ready, since.Sub(begin),
				step.since)
		}
	}
	if pods, _ := r.pods.Get(main); len(pods) != 1 {
		t.Errorf("got %d stored pods, want 1", len(pods))
	}
}
