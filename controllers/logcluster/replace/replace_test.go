package replace

import (
	"heartwood.dev/heartwood/controllers/logcluster/memory"

	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
)

// TestStoppedPodsHaveTimesOfTheirOwn checks that a broker's keepAfter does not become longer
// because another broker also stops.
func TestStoppedPodsHaveTimesOfTheirOwn(t *testing.T) {
	m := &memory.Memory{}
	s := &facts.Facts{Cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"}},
		Pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "a"}},
			{ObjectMeta: metav1.ObjectMeta{UID: "b"}}}}
	begin := time.Now()
	expect := func(pod int, stopped bool, second int, want time.Duration) {
		t.Helper()
		now := begin.Add(time.Duration(second) * time.Second)
		if got := stoppedFor(m, &s.Pods[pod], stopped, now); got != want {
			t.Errorf("pod %d after %d s: got %s, want %s", pod, second, got, want)
		}
	}
	expect(0, true, 0, 0)
	expect(1, false, 0, 0)
	expect(0, true, 10, 10*time.Second)
	expect(1, true, 10, 0)
	expect(0, true, 70, 70*time.Second)
	expect(1, true, 70, time.Minute)
	expect(1, false, 80, 0)
	expect(1, true, 80, 0)

	s.Pods = s.Pods[1:]
	forgetStopped(s, m)
	if _, ok := m.Stopped["b"]; !ok || len(m.Stopped) != 1 {
		t.Errorf("got the times %v, want only that of the pod that exists", m.Stopped)
	}
}
