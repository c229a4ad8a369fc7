package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReadinessIsTimedByOurClock: nodes whose clocks are an hour ahead or behind hold nothing up
// and hurry nothing.
func TestReadinessIsTimedByOurClock(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(uid string, at time.Duration) []corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1", UID: types.UID(uid)}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin.Add(at))}}
		return []corev1.Pod{pod}
	}
	starting := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1", UID: "b"}}}
	main, s := types.NamespacedName{Name: "main"}, settling{}
	for _, look := range []struct {
		what  string
		after time.Duration
		pods  []corev1.Pod
		since time.Duration // -1: it is not ready
	}{
		{"first seen, by a clock that is ahead", 0, pod("a", time.Hour), 0},
		{"the same", 10 * time.Second, pod("a", time.Hour), 0},
		{"ready anew", 20 * time.Second, pod("a", time.Hour+5*time.Second), 20 * time.Second},
		{"ready anew, and the clock was set back", 30 * time.Second, pod("a", -time.Hour),
			30 * time.Second},
		{"another pod", 40 * time.Second, starting, -1},
		{"ready, by a clock that is behind", 50 * time.Second, pod("b", -2*time.Hour),
			50 * time.Second},
		{"gone", time.Minute, nil, -1},
		{"back", 2 * time.Minute, pod("b", -2*time.Hour), 2 * time.Minute},
	} {
		since, ready := s.look(main, look.pods, begin.Add(look.after))[1]
		if ready != (look.since >= 0) || ready && !since.Equal(begin.Add(look.since)) {
			t.Errorf("%s: ready %t since %v, want since %v", look.what, ready, since.Sub(begin),
				look.since)
		}
	}
	if len(s[main]) != 1 {
		t.Errorf("%d pods are remembered, one is there", len(s[main]))
	}
}
