package cli

import (
	"archive/zip"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

// TestReportSelects checks that a report contains only objects of its LogCluster.
func TestReportSelects(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "u"}}
	other := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "v"}}
	selected := &selection{cluster: cluster, names: map[string]bool{}}
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
		if got := selected.has(test.object); got != test.want {
			t.Errorf("%s: got %t", test.name, got)
		}
	}
}

// TestReportRedactsOtherContainers checks that a report does not contain the secrets of containers
// that a webhook has added to a broker's pod.
func TestReportRedactsOtherContainers(t *testing.T) {
	handler := func(kind, name string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{kind + "exec-" + name}},
			HTTPGet: &corev1.HTTPGetAction{Path: kind + "path-" + name,
				HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: kind + "header-" + name}}}}
	}
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Args: []string{"arg-" + name},
			Command: []string{"run-" + name}, Env: []corev1.EnvVar{{Name: "A", Value: "env-" + name}},
			LivenessProbe:  &corev1.Probe{ProbeHandler: handler("live-", name)},
			ReadinessProbe: &corev1.Probe{ProbeHandler: handler("ready-", name)},
			StartupProbe:   &corev1.Probe{ProbeHandler: handler("startup-", name)},
			Lifecycle: &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: handler("start-", name).Exec},
				PreStop:   &corev1.LifecycleHandler{HTTPGet: handler("stop-", name).HTTPGet}}}
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
		for _, kind := range []string{"arg-", "run-", "env-", "live-exec-", "live-path-",
			"live-header-", "ready-header-", "startup-exec-", "start-exec-", "stop-header-"} {
			if got := strings.Contains(string(text), kind+name); got != (name == "broker") {
				t.Errorf("the report contains %s%s: %t", kind, name, got)
			}
		}
	}
}

// readReport returns the files in a report.
func readReport(t *testing.T, file string) map[string]string {
	t.Helper()
	archive, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	return unzipped(t, &archive.Reader)
}

func unzipped(t *testing.T, archive *zip.Reader) map[string]string {
	t.Helper()
	contents := map[string]string{}
	for _, entry := range archive.File {
		reader, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		contents[entry.Name] = string(content)
	}
	return contents
}

// createOperator creates an operator's Deployment with a container that an administrator has added,
// and its pod.
func (f *fixture) createOperator(t *testing.T) {
	t.Helper()
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: operatorLabels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: operatorContainer, Image: "heartwood", Args: []string{"operator", "--leader-elect"}},
			{Name: "side", Image: "side", Args: []string{"--password=hunter2"}}}}}
	f.create(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "heartwood-operator",
		Labels: operatorLabels}, Spec: appsv1.DeploymentSpec{Template: template,
		Selector: &metav1.LabelSelector{MatchLabels: operatorLabels}}})
	running := template.Spec
	running.NodeName = "n1"
	f.create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "heartwood-operator-0",
		Labels: operatorLabels}, Spec: running})
}

// testReport checks the files in a report, and that it contains no value of any Secret.
func (f *fixture) testReport(t *testing.T) {
	secret := get(t, f, "app-logcluster", &corev1.Secret{})
	secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "hunter2",
		"example.com/previous": "hunter2"}
	if err := f.api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.createOperator(t)
	file := filepath.Join(t.TempDir(), "report.zip")
	f.run(t, "report", "--file", file).ok(t)
	contents := readReport(t, file)
	for name, content := range contents {
		if strings.Contains(content, "hunter2") || strings.Contains(content, "aHVudGVyMg") {
			t.Errorf("%s contains the password", name)
		}
	}
	for name, want := range map[string]string{
		"resources/secrets.yaml":                               "password: <7 bytes>",
		"resources/topics.yaml":                                "name: tickets",
		"resources/partitionsets.yaml":                         "tickets/0: 0 abcdefgh",
		"brokers/0/partitions.json":                            `"topic":"tickets"`,
		"brokers/0/metrics.txt":                                "heartwood_build_info",
		"errors.txt":                                           "logs/main-broker-0.log",
		"operator/" + f.namespace + "/heartwood-operator.yaml": "--leader-elect",
	} {
		if !strings.Contains(contents[name], want) {
			t.Errorf("%s does not contain %q: %.300q", name, want, contents[name])
		}
	}
	log := "operator/" + f.namespace + "/heartwood-operator-0.log"
	if missing := contents["errors.txt"]; !strings.Contains(missing, log) { // no kubelet runs
		t.Errorf("errors.txt does not contain %s: %s", log, missing)
	}
	f.run(t, "report", "--file", file).fails(t, "exists")

	restricted := filepath.Join(t.TempDir(), "restricted.zip")
	runAs(t.Context(), f.restricted, "", "report", "--file", restricted).ok(t)
	if missing := readReport(t, restricted)["errors.txt"]; !strings.Contains(missing,
		"operator: deployments.apps is forbidden") {
		t.Errorf("errors.txt of a user with few rights: %s", missing)
	}
}
