//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// install makes the namespace, where only restricted pods may run, and installs the chart into it.
func (w *world) install(t *testing.T) {
	t.Helper()
	hadCRDs := w.hasCRDs(t.Context())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   w.namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if _, err := w.set.CoreV1().Namespaces().Create(t.Context(), namespace,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if os.Getenv("HEARTWOOD_E2E_KEEP") != "" {
			t.Logf("namespace %s is kept, with the Helm release heartwood in it", w.namespace)
			return
		}
		if t.Failed() {
			w.dump(t)
		}
		w.remove(t, !hadCRDs)
	})
	repository, tag := splitImage(w.image)
	out, err := helm(t.Context(), "install", "heartwood", "charts/heartwood", "--namespace",
		w.namespace, "--take-ownership",
		"--set", "image.repository="+repository, "--set", "image.tag="+tag, "--wait", "--timeout",
		deadline.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("helm install:\n%s", out)
}

// upgraded changes a value of the chart; the operators run with it after, and all that they made
// stays.
func (w *world) upgraded(t *testing.T) {
	if _, err := helm(t.Context(), "upgrade", "heartwood", "charts/heartwood", "--namespace",
		w.namespace, "--reuse-values",
		"--set", "logLevel=debug", "--wait", "--timeout", deadline.String()); err != nil {
		t.Fatal(err)
	}
	operators, err := w.pods(t.Context(),
		client.MatchingLabels{"app.kubernetes.io/component": "operator"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range operators {
		if pod := &operators[i]; pod.DeletionTimestamp == nil &&
			!slices.Contains(pod.Spec.Containers[0].Args, "--log-level=debug") {
			t.Errorf("operator %s runs with %v", pod.Name, pod.Spec.Containers[0].Args)
		}
	}
	w.waitReady(t, 1, topics)
}

func (w *world) hasCRDs(ctx context.Context) bool {
	return w.List(ctx, &v1alpha1.TopicList{}, client.Limit(1)) == nil
}

func splitImage(image string) (repository, tag string) {
	at := strings.LastIndex(image, ":")
	return image[:at], image[at+1:]
}

// remove takes everything away again, and checks on the way that uninstalling the chart keeps the
// CRDs.
func (w *world) remove(t *testing.T, crds bool) {
	t.Helper()
	ctx := context.Background() // the test's own is over
	for _, all := range []client.Object{&v1alpha1.Topic{}, &v1alpha1.LogCluster{}} {
		if err := w.DeleteAllOf(ctx, all, client.InNamespace(w.namespace)); err != nil {
			t.Errorf("delete what is left: %v", err)
		}
	}
	if out, err := command(ctx, "", "kubectl", "--namespace", w.namespace, "wait", "--for=delete",
		"--timeout=180s",
		"topics,logclusters", "--all"); err != nil {
		t.Errorf("resources do not go: %v", out)
	}
	if _, err := helm(ctx, "uninstall", "heartwood", "--namespace", w.namespace,
		"--wait"); err != nil {
		t.Error(err)
	}
	if !w.hasCRDs(ctx) {
		t.Error("helm uninstall took the CRDs, and every Topic of the Kubernetes cluster with them")
	}
	if crds {
		if _, err := command(ctx, "", "kubectl", "delete", "-f", "config/crd", "-f",
			"config/admission"); err != nil {
			t.Error(err)
		}
	}
	if _, err := command(ctx, "", "kubectl", "delete", "namespace", w.namespace,
		"--timeout=180s"); err != nil {
		t.Error(err)
	}
}

// dump logs what explains a failure.
func (w *world) dump(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "pods,services,persistentvolumeclaims,logclusters,topics,partitions,leases", "-o",
			"wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--selector=app.kubernetes.io/component=operator", "--tail=60"},
		{"logs", "--selector=app.kubernetes.io/component=broker", "--tail=60", "--prefix"},
		{"logs", "client", "--tail=60"},
	} {
		out, err := command(context.Background(), "", "kubectl",
			append([]string{"--namespace", w.namespace}, args...)...)
		if err != nil {
			out = err.Error()
		}
		t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
	}
}

// runClient starts the client pod against a LogCluster.
func (w *world) runClient(t *testing.T, logCluster string) {
	t.Helper()
	var cluster v1alpha1.LogCluster
	if err := w.Get(t.Context(), client.ObjectKey{Name: logCluster}, &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Status.Bootstrap == "" {
		t.Fatalf("LogCluster %s is ready and has no bootstrap address", logCluster)
	}
	yes, no := true, false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "client", Namespace: w.namespace},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeRuntimeDefault,
				},
			},
			AutomountServiceAccountToken: &no,
			// it remembers what was promised: a second one would not
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "client", Image: w.clientImage,
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
	if err := w.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.waitPod(t, "client", nil)
}

// waitGone waits until an object is not there any more.
func (w *world) waitGone(t *testing.T, object client.Object) {
	t.Helper()
	what := fmt.Sprintf("%T %s is gone", object, object.GetName())
	until(t, what, func(ctx context.Context) string {
		err := w.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return fmt.Sprintf("it is there, with finalizers %v", object.GetFinalizers())
	})
}
