package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// brokerPod returns the pod of broker 1. Its condition Ready changed the given time ago.
func brokerPod(ready corev1.ConditionStatus, ago time.Duration) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready,
		LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	return pod
}

// deleted returns the pod with a deletion that was requested the given time ago.
func deleted(pod corev1.Pod, ago time.Duration) corev1.Pod {
	const grace = 30
	pod.DeletionGracePeriodSeconds = new(int64(grace))
	pod.DeletionTimestamp = new(metav1.NewTime(now.Add(grace*time.Second - ago)))
	return pod
}

// TestPodsThatContradictTheStatus checks findings about pods while the status is outdated. Without
// an operator, the status still contains the last known state of the brokers.
func TestPodsThatContradictTheStatus(t *testing.T) {
	const soon, later = 10 * time.Second, 10 * time.Minute
	ready, failed := brokerPod("True", later), brokerPod("False", later)
	crashing := brokerPod("False", later)
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: restartsMany}}
	pending := corev1.Pod{ObjectMeta: failed.ObjectMeta}
	for name, c := range map[string]struct {
		pods             []corev1.Pod
		notReady, rolled bool // in the status: the broker is not ready; a rolling update restarts it
		want             string
	}{
		"ready":               {pods: []corev1.Pod{ready}},
		"pods cannot be read": {},
		"missing":             {pods: []corev1.Pod{}, want: "PodMissing"},
		"not ready":           {pods: []corev1.Pod{failed}, want: "PodNotReady"},
		"pending":             {pods: []corev1.Pod{pending}, want: "PodNotReady"},
		"terminating": {pods: []corev1.Pod{deleted(ready, soon)},
			want: "PodTerminating"},
		"as the status says":           {pods: []corev1.Pod{failed}, notReady: true},
		"crashing":                     {pods: []corev1.Pod{crashing}, want: "RestartedOften"},
		"deleted by a rolling update":  {pods: []corev1.Pod{deleted(ready, soon)}, rolled: true},
		"created by a rolling update":  {pods: []corev1.Pod{brokerPod("False", soon)}, rolled: true},
		"replaced by a rolling update": {pods: []corev1.Pod{}, rolled: true},
		"lost in a rolling update":     {pods: []corev1.Pod{failed}, rolled: true, want: "PodNotReady"},
		"cannot be deleted in a rolling update": {pods: []corev1.Pod{deleted(ready, later)},
			rolled: true, want: "PodTerminating"},
	} {
		cluster := healthy()
		cluster.Status.Brokers = []v1alpha1.BrokerStatus{{ID: 1, Ready: !c.notReady}}
		if c.rolled {
			cluster.Status.Conditions = []metav1.Condition{condition("RollingOut", "True",
				"Restarting", "")}
			cluster.Status.Brokers[0].RestartReason = v1alpha1.RestartTemplateChanged
		}
		var got string
		found := Pods(Input{Cluster: cluster, Pods: c.pods, Now: now})
		for _, f := range found {
			got += f.Reason
		}
		if diff := cmp.Diff(c.want, got); diff != "" || Degraded(found) != (c.want != "") {
			t.Errorf("%s: %+v (-want +got):\n%s", name, found, diff)
		}
	}
}

// TestMessageOfAPodThatIsNotReady checks that the finding's message contains the kubelet's message.
func TestMessageOfAPodThatIsNotReady(t *testing.T) {
	cluster, pod := healthy(), brokerPod("False", time.Hour)
	cluster.Status.Brokers = []v1alpha1.BrokerStatus{{ID: 1, Ready: true}}
	pod.Status.Conditions[0].Message = "containers with unready status: [broker]"
	want := []Finding{newFinding(Warning, "Pod main-broker-1", "PodNotReady", "The pod is not ready: "+
		"containers with unready status: [broker]. According to the status, broker 1 is ready. If "+
		"this lasts for more than a minute, the operator probably does not run.", checkOperator)}
	got := Pods(Input{Cluster: cluster, Pods: []corev1.Pod{pod}, Now: now})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
