//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// install creates the namespace and installs the chart. The namespace enforces the restricted
// profile of the Pod Security Standards. If the Kubernetes cluster has no CRDs, install first makes
// an installation that fails, under another release name.
func (e *environment) install(t *testing.T) {
	t.Helper()
	hadCRDs := e.hasCRDs(t.Context())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   e.namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if _, err := e.set.CoreV1().Namespaces().Create(t.Context(), namespace,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if os.Getenv("HEARTWOOD_E2E_KEEP") != "" {
			t.Logf("namespace %s with the Helm release heartwood is kept", e.namespace)
			return
		}
		if t.Failed() {
			e.dump(t)
		}
		e.remove(t, !hadCRDs)
	})
	if !hadCRDs {
		e.failedInstall(t)
	}
	repository, tag := splitImage(e.image)
	handedOver := e.installRelease(t, release, "--set", "image.repository="+repository, "--set",
		"image.tag="+tag)
	if !hadCRDs && !handedOver {
		t.Error("the CRDs of the failed install did not have to be handed over")
	}
}

// upgradedAnnotation is an annotation that upgrade adds to the operator's pods.
const upgradedAnnotation = "example.com/upgraded"

// upgrade first changes the log level, which restarts no operator. Then it changes a value of the
// chart that requires a restart of the operators. Existing resources must stay Ready.
func (e *environment) upgrade(t *testing.T) {
	before := e.operators(t)
	e.setValue(t, "logLevel=debug")
	for _, pod := range before {
		until(t, "operator "+pod.Name+" logs with another level", func(ctx context.Context) string {
			out, err := command(ctx, "", "kubectl", "--namespace", e.namespace, "logs",
				pod.Name)
			if err != nil || !strings.Contains(out, `"msg":"log level changed","to":"DEBUG"`) {
				return "the log does not contain the change"
			}
			return ""
		})
	}
	e.setValue(t, "podAnnotations."+strings.ReplaceAll(upgradedAnnotation, ".", `\.`)+"=yes")
	for _, pod := range e.operators(t) {
		if pod.DeletionTimestamp == nil && pod.Annotations[upgradedAnnotation] != "yes" {
			t.Errorf("operator %s has the annotations %v", pod.Name, pod.Annotations)
		}
	}
	e.waitReady(t, 1, topics)
	e.monitoringNeedsCRDs(t)
}

// monitored is the API group version of the kinds that monitoring.enabled creates.
var monitored = schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}

// monitoringRefused matches Helm's output if the cluster does not have the kinds of the Prometheus
// operator.
var monitoringRefused = regexp.MustCompile(`monitoring\.enabled needs kind ` +
	`(PodMonitor|PrometheusRule), which the Prometheus operator installs: install its CRDs .*` +
	`or set monitoring\.enabled=false and use config/prometheus/rules\.yaml`)

// monitoringNeedsCRDs enables the objects for the Prometheus operator. Without the CRDs of these
// objects, the chart must refuse the upgrade, name the missing kinds, and change nothing.
func (e *environment) monitoringNeedsCRDs(t *testing.T) {
	t.Helper()
	_, err := e.set.Discovery().ServerResourcesForGroupVersion(monitored.String())
	switch {
	case err == nil:
		t.Logf("the cluster has %s: the refusal is not tested", monitored)
		return
	case !apierrors.IsNotFound(err):
		t.Fatal(err)
	}
	before := e.revisions(t)
	out, err := helm(t.Context(), "upgrade", release, "charts/heartwood", "--namespace",
		e.namespace, "--reuse-values", "--set", "monitoring.enabled=true")
	if err == nil {
		t.Fatalf("objects of a kind that does not exist were created:\n%s", out)
	}
	if !monitoringRefused.MatchString(out) {
		t.Errorf("refused without the reason:\n%s", out)
	}
	if after := e.revisions(t); after != before {
		t.Errorf("the refused upgrade changed the release:\n%s\nbefore:\n%s", after, before)
	}
}

// revisions returns the release's revisions and their states.
func (e *environment) revisions(t *testing.T) string {
	t.Helper()
	out, err := helm(t.Context(), "history", release, "--namespace", e.namespace)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// setValue changes a value of the chart.
func (e *environment) setValue(t *testing.T, value string) {
	t.Helper()
	if _, err := helm(t.Context(), "upgrade", release, "charts/heartwood", "--namespace",
		e.namespace, "--reuse-values", "--set", value, "--wait", "--timeout",
		deadline.String()); err != nil {
		t.Fatal(err)
	}
}

func (e *environment) operators(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := e.pods(t.Context(), operators)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func (e *environment) hasCRDs(ctx context.Context) bool {
	return e.List(ctx, &v1alpha1.TopicList{}, client.Limit(1)) == nil
}

func splitImage(image string) (repository, tag string) {
	index := strings.LastIndex(image, ":")
	return image[:index], image[index+1:]
}

// remove deletes all of the test's resources. It checks that uninstalling the chart keeps the CRDs.
func (e *environment) remove(t *testing.T, crds bool) {
	t.Helper()
	ctx := context.Background() // the test's context has ended
	for _, all := range []client.Object{&v1alpha1.Topic{}, &v1alpha1.LogCluster{}} {
		if err := e.DeleteAllOf(ctx, all, client.InNamespace(e.namespace)); err != nil {
			t.Errorf("delete all resources: %v", err)
		}
	}
	if out, err := command(ctx, "", "kubectl", "--namespace", e.namespace, "wait", "--for=delete",
		"--timeout=180s",
		"topics,logclusters", "--all"); err != nil {
		t.Errorf("resources are not deleted: %v", out)
	}
	if _, err := helm(ctx, "uninstall", release, "--namespace", e.namespace,
		"--wait"); err != nil {
		t.Error(err)
	}
	if !e.hasCRDs(ctx) {
		t.Error("helm uninstall deleted the CRDs, and every Topic of the Kubernetes cluster with them")
	}
	if crds {
		if _, err := command(ctx, "", "kubectl", "delete", "-f", "config/crd", "-f",
			"config/admission"); err != nil {
			t.Error(err)
		}
	}
	if _, err := command(ctx, "", "kubectl", "delete", "namespace", e.namespace,
		"--timeout=180s"); err != nil {
		t.Error(err)
	}
}

// dump logs the namespace's resources and pod logs after a failure.
func (e *environment) dump(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "pods,services,persistentvolumeclaims,logclusters,topics,partitionsets,leases", "-o",
			"wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--selector=app.kubernetes.io/component=operator", "--tail=60"},
		{"logs", "--selector=app.kubernetes.io/component=broker", "--tail=60", "--prefix"},
		{"logs", "client", "--tail=60"},
	} {
		out, err := command(context.Background(), "", "kubectl",
			append([]string{"--namespace", e.namespace}, args...)...)
		if err != nil {
			out = err.Error()
		}
		t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
	}
}

// runClient starts the client pod for a LogCluster.
func (e *environment) runClient(t *testing.T, logCluster string) {
	t.Helper()
	var cluster v1alpha1.LogCluster
	if err := e.Get(t.Context(), client.ObjectKey{Name: logCluster}, &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Status.Bootstrap == "" {
		t.Fatalf("LogCluster %s is Ready and has no bootstrap address", logCluster)
	}
	yes, no := true, false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: e.client, Namespace: e.namespace},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeRuntimeDefault,
				},
			},
			AutomountServiceAccountToken: &no,
			// The client keeps the acknowledged records in memory, so it must not be restarted.
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "client", Image: e.clientImage,
				Args: []string{"--bootstrap", cluster.Status.Bootstrap},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1,
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
						Path: "/healthz", Port: intstr.FromInt32(8080),
					}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if err := e.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	e.waitPod(t, e.client, nil)
}

// waitDeleted waits until an object no longer exists.
func (e *environment) waitDeleted(t *testing.T, object client.Object) {
	t.Helper()
	what := fmt.Sprintf("%T %s deleted", object, object.GetName())
	until(t, what, func(ctx context.Context) string {
		err := e.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return fmt.Sprintf("it exists, with finalizers %v", object.GetFinalizers())
	})
}
