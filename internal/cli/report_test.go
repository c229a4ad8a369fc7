package cli

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

// TestReportSelects: a report contains only objects of its LogCluster.
func TestReportSelects(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "u"}}
	other := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "v"}}
	of := &selection{cluster: cluster, names: map[string]bool{}}
	secret := func(labels map[string]string, owner ...metav1.OwnerReference) runtime.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: labels,
			OwnerReferences: owner}}
	}
	event := func(kind, name string) runtime.Object {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}}
	}
	for _, test := range []struct {
		name   string
		object runtime.Object
		want   bool
	}{
		{"other secret", secret(map[string]string{"app": "shop"}), false},
		{"secret", secret(render.Labels(cluster)), true},
		{"owned", secret(nil, metav1.OwnerReference{UID: "u"}), true},
		{"not owned", secret(nil, metav1.OwnerReference{UID: "v"}), false},
		{"claim", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data",
			Labels: render.Selector(cluster)}}, true},
		{"claim of another", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "d2",
			Labels: render.Selector(other)}}, false},
		{"cluster", cluster, true}, {"other cluster", other, false},
		{"topic", &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Cluster: "main"}}, true},
		{"other topic", &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Cluster: "other"}}, false},
		{"event of a claim", event("PersistentVolumeClaim", "data"), true},
		{"event of another kind", event("Deployment", "data"), false},
		{"event of a lost pod", event("Pod", "main-broker-7"), true},
		{"event of another", event("Pod", "shop-0"), false},
		{"event of another broker", event("Pod", "other-broker-0"), false},
	} {
		if got := of.has(test.object); got != test.want {
			t.Errorf("%s: got %t", test.name, got)
		}
	}
}

// TestReportRedactsOtherContainers: a webhook may add a container with secrets to a broker's pod.
func TestReportRedactsOtherContainers(t *testing.T) {
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Args: []string{"arg-" + name},
			Command: []string{"run-" + name}, Env: []corev1.EnvVar{{Name: "A", Value: "env-" + name}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     []corev1.Container{container(render.ContainerName), container("side")},
		InitContainers: []corev1.Container{container("init")},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(container("debug"))}}}}
	redact(pod)
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"broker", "side", "init", "debug"} {
		for _, kind := range []string{"arg-", "run-", "env-"} {
			if got := strings.Contains(string(text), kind+name); got != (name == "broker") {
				t.Errorf("the report contains %s%s: %t", kind, name, got)
			}
		}
	}
}
