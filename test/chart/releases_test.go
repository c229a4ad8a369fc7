package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/test/kit/envtest"
)

// releases runs Helm with a real API server that has no CRDs and starts no pods.
type releases struct {
	program, kubeconfig, directory string
	api                            client.Client
}

func newReleases(t *testing.T) *releases {
	t.Helper()
	config := envtest.StartWithoutCRDs(t)
	r := &releases{directory: t.TempDir()}
	r.kubeconfig = filepath.Join(r.directory, "kubeconfig")
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host,
		CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData,
		ClientKeyData: config.KeyData}
	kubeconfig.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	kubeconfig.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*kubeconfig, r.kubeconfig); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.api, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	r.program = buildHelm(t)
	return r
}

// buildHelm returns the path of Helm.
func buildHelm(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n",
		"-modfile=hack/tools/helm/go.mod", "helm")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	program, err := cmd.Output()
	if err != nil {
		t.Fatalf("build Helm: %v", err)
	}
	return strings.TrimSpace(string(program))
}

// each calls a function for each object in the manifests whose paths match the patterns.
func each(t *testing.T, do func(*unstructured.Unstructured), patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(root + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no manifests %s: %v", pattern, err)
		}
		for _, file := range files {
			content := readFile(t, strings.TrimPrefix(file, root))
			for _, document := range strings.Split(content, "\n---\n") {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
					t.Fatal(err)
				}
				do(object)
			}
		}
	}
}

// kept are the files with the objects that an uninstall keeps.
var kept = []string{"config/crd/*.yaml", "config/admission/*.yaml"}

// applyAs creates the objects that an uninstall keeps, as a client with the given field manager.
func (r *releases) applyAs(t *testing.T, manager string) {
	t.Helper()
	each(t, func(object *unstructured.Unstructured) {
		if err := r.api.Create(t.Context(), object, client.FieldOwner(manager)); err != nil {
			t.Fatal(err)
		}
	}, kept...)
}

// handOver does what the printed commands do.
func (r *releases) handOver(t *testing.T, release string) {
	t.Helper()
	each(t, func(object *unstructured.Unstructured) {
		patch := []byte(`{"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}, ` +
			`"annotations": {"meta.helm.sh/release-name": "` + release + `", ` +
			`"meta.helm.sh/release-namespace": "default"}}}`)
		if err := r.api.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch),
			client.FieldOwner("kubectl-annotate")); err != nil {
			t.Fatal(err)
		}
	}, kept...)
}

// helm runs a Helm command. It returns the command's output, and whether it succeeded.
func (r *releases) helm(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.program, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig, "HELM_CACHE_HOME="+r.directory,
		"HELM_CONFIG_HOME="+r.directory, "HELM_DATA_HOME="+r.directory)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// ok runs a Helm command that must succeed.
func (r *releases) ok(t *testing.T, args ...string) {
	t.Helper()
	if out, ok := r.helm(t, args...); !ok {
		t.Fatalf("helm %v: %s", args, out)
	}
}

// TestKeptObjectsAfterAFailedInstall checks that an uninstall keeps the CRDs and policies. The next
// install succeeds under the same name. Under another name, it fails with a message that contains
// the commands to run.
func TestKeptObjectsAfterAFailedInstall(t *testing.T) {
	r := newReleases(t)
	install := func(name string, more ...string) []string {
		return append([]string{"install", name, "charts/heartwood"}, more...)
	}
	if out, ok := r.helm(t, install("first", "--wait", "--timeout", "2s")...); ok {
		t.Fatalf("an operator without pods was installed:\n%s", out)
	}
	r.ok(t, "uninstall", "first")
	for _, more := range [][]string{nil, {"--take-ownership"}} {
		out, ok := r.helm(t, install("second", more...)...)
		for _, want := range []string{"belongs to release first in namespace default",
			"Then install as release first in namespace default again", "  kubectl annotate --overwrite $KEPT " +
				"meta.helm.sh/release-name=second meta.helm.sh/release-namespace=default\n"} {
			if ok || !strings.Contains(out, want) {
				t.Errorf("install of another release %v: %t, want %q in\n%s", more, ok, want, out)
			}
		}
	}
	r.ok(t, install("first")...)
}

// TestInstallAfterKubectlApply checks an install after kubectl has applied the CRDs and policies of
// config. The refused install prints commands. After these commands, an install and an upgrade
// succeed. Helm applies server-side, and kubectl owns the fields, so without the flag in the
// message there would be conflicts.
func TestInstallAfterKubectlApply(t *testing.T) {
	r := newReleases(t)
	r.applyAs(t, "kubectl-client-side-apply")
	out, ok := r.helm(t, "install", "first", "charts/heartwood")
	if ok || !strings.Contains(out, "belongs to release (none)") ||
		!strings.Contains(out, "install again with --force-conflicts") {
		t.Fatalf("install over objects of kubectl: %t\n%s", ok, out)
	}
	r.handOver(t, "first")
	if out, ok := r.helm(t, "install", "first", "charts/heartwood"); ok ||
		!strings.Contains(out, "conflict") {
		t.Errorf("without the flag: %t\n%s", ok, out)
	}
	r.ok(t, "uninstall", "first")
	r.ok(t, "install", "first", "charts/heartwood", "--force-conflicts")
	r.ok(t, "upgrade", "first", "charts/heartwood", "--set", "replicas=1")
}
