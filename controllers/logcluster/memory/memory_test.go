package memory

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReadinessIsTimedByTheOperatorsClock checks that ObserveReady returns times of the operator's
// clock, although the node's clock is an hour or two ahead or behind.
func TestReadinessIsTimedByTheOperatorsClock(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(uid string, ahead time.Duration) []corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1", UID: types.UID(uid)}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin.Add(ahead))}}
		return []corev1.Pod{pod}
	}
	starting := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1", UID: "b"}}}
	m := Memory{}
	for _, step := range []struct {
		name  string
		after time.Duration
		pods  []corev1.Pod
		since time.Duration // expected time of becoming ready; -1: not ready
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
		since, ready := m.ObserveReady(step.pods, begin.Add(step.after))[1]
		if ready != (step.since >= 0) || ready && !since.Equal(begin.Add(step.since)) {
			t.Errorf("%s: got ready %t since %v, want since %v", step.name, ready, since.Sub(begin),
				step.since)
		}
	}
	if len(m.ready) != 1 {
		t.Errorf("got %d stored pods, want 1", len(m.ready))
	}
}
