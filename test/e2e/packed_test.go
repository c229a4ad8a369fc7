//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Steps with the files of make release. They uninstall the release of the other steps, whose
// brokers continue to run, install the operator from a file, and return to the release.

// installedNamespace is the namespace that install.yaml creates.
const installedNamespace = "heartwood-system"

// packed returns the path of the chart that make release has written to DIST, and its version.
func packed(t *testing.T) (chart, version string) {
	t.Helper()
	dist := os.Getenv("DIST")
	if dist == "" {
		t.Skip("DIST is not set: see test/e2e/doc.go")
	}
	charts, err := filepath.Glob(filepath.Join(dist, "heartwood-*.tgz"))
	if err != nil || len(charts) != 1 {
		t.Fatalf("DIST=%s has the charts %v, %v; want one", dist, charts, err)
	}
	name := filepath.Base(charts[0])
	return charts[0], strings.TrimSuffix(strings.TrimPrefix(name, "heartwood-"), ".tgz")
}

// packedChart installs the operator with the packed chart.
func (e *environment) packedChart(t *testing.T) {
	chart, _ := packed(t)
	values := e.withoutRelease(t)
	t.Cleanup(func() { // also after an install that has failed
		if _, err := helm(context.Background(), "uninstall", release, "--namespace", e.namespace,
			"--wait"); err != nil {
			t.Error(err)
		}
	})
	if _, err := helm(t.Context(), "install", release, chart, "--namespace", e.namespace,
		"--values", values, "--wait", "--timeout", deadline.String()); err != nil {
		t.Fatal(err)
	}
	e.smallCluster(t)
}

// installManifest installs the operator with install.yaml. Only the name of the image is another
// one, as the documentation says.
func (e *environment) installManifest(t *testing.T) {
	chart, version := packed(t)
	content, err := os.ReadFile(filepath.Join(filepath.Dir(chart), "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named := "heartwood.dev/heartwood:" + version
	manifest := strings.ReplaceAll(string(content), named, e.image)
	if manifest == string(content) && e.image != named {
		t.Fatalf("install.yaml does not name the image %s", named)
	}
	e.withoutRelease(t)
	t.Cleanup(func() {
		if _, err := command(context.Background(), withoutKept(manifest), "kubectl", "delete",
			"--ignore-not-found", "--timeout=180s", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	// The conflicts are those with Helm, which has written the CRDs before.
	if _, err := command(t.Context(), manifest, "kubectl", "apply", "--server-side",
		"--force-conflicts", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), "", "kubectl", "--namespace", installedNamespace, "rollout",
		"status", "deployment/heartwood-operator", "--timeout", deadline.String()); err != nil {
		t.Fatal(err)
	}
	e.smallCluster(t)
}

// withoutKept returns the documents of a manifest without the objects that an uninstall keeps.
// Deleting the CRDs would delete every LogCluster.
func withoutKept(manifest string) string {
	var others []string
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		if !strings.Contains(document, "helm.sh/resource-policy: keep") {
			others = append(others, document)
		}
	}
	return strings.Join(others, "\n---\n")
}

// withoutRelease uninstalls the release and installs it again at the end of the step. It returns a
// file with the values of the release.
func (e *environment) withoutRelease(t *testing.T) (values string) {
	t.Helper()
	values = filepath.Join(t.TempDir(), "values.yaml")
	before, err := helm(t.Context(), "get", "values", release, "--namespace", e.namespace, "-o",
		"yaml")
	if err == nil {
		err = os.WriteFile(values, []byte(before), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.uninstallRelease(t, release)
	t.Cleanup(func() {
		// kubectl may own fields of the CRDs now.
		if _, err := helm(context.Background(), "install", release, "charts/heartwood", "--namespace",
			e.namespace, "--values", values, "--force-conflicts", "--wait", "--timeout",
			deadline.String()); err != nil {
			t.Error(err)
		}
	})
	until(t, "no operators", func(ctx context.Context) string {
		left, err := e.pods(ctx, operators)
		if err != nil || len(left) > 0 {
			return fmt.Sprintf("%d operators, %v", len(left), err)
		}
		return ""
	})
	return values
}

// smallCluster creates a LogCluster with a Topic, writes records, reads them, and deletes both. All
// of it needs an operator.
func (e *environment) smallCluster(t *testing.T) {
	t.Helper()
	const manifest = "test/e2e/testdata/packed.yaml"
	e.kubectl(t, "apply", "-f", manifest)
	t.Cleanup(func() {
		for _, args := range [][]string{
			{"delete", "pod", "client-packed", "--ignore-not-found", "--grace-period=1"},
			{"delete", "-f", manifest, "--timeout=180s"},
			{"wait", "--for=delete", "pods,pvc", "-l", v1alpha1.LabelCluster + "=packed",
				"--timeout=120s"},
		} {
			if _, err := command(context.Background(), "", "kubectl",
				append([]string{"--namespace", e.namespace}, args...)...); err != nil {
				t.Error(err)
			}
		}
	})
	e.kubectl(t, "wait", "logcluster/packed", "topic/packed", "--for=condition=Ready",
		"--timeout", deadline.String())
	small := e.of("packed")
	small.runClient(t, small.cluster)
	small.mustCall(t, "POST", "produce", "topic", "packed", "keys", "100", "rounds", "3")
	if answer := small.checkCompacted(t, "packed"); answer.Keys != 100 {
		t.Errorf("%d keys were acknowledged, want 100", answer.Keys)
	}
}
