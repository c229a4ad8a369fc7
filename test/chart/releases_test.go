package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"heartwood.dev/heartwood/test/kit/envtest"
)

// releases runs Helm on a real API server without CRDs. Nothing starts pods there.
type releases struct{ program, kubeconfig, directory string }

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

// helm runs a command of Helm and returns its output, and whether it succeeded.
func (r *releases) helm(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.program, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig, "HELM_CACHE_HOME="+r.directory,
		"HELM_CONFIG_HOME="+r.directory, "HELM_DATA_HOME="+r.directory)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// ok runs a command that must succeed.
func (r *releases) ok(t *testing.T, args ...string) {
	t.Helper()
	if out, ok := r.helm(t, args...); !ok {
		t.Fatalf("helm %v: %s", args, out)
	}
}

// TestKeptObjectsAfterAFailedInstall: an uninstall keeps the CRDs and policies. The next install
// succeeds under the same name; under another name it says so, and prints the commands.
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
