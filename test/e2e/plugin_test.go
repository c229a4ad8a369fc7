//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// pluginRules are the permissions that docs/operate/kubectl-heartwood.md names for status, why,
// top, tail, produce, groups and clean.
var pluginRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"heartwood.dev"}, Resources: []string{"logclusters", "topics"},
		Verbs: []string{"get", "list"}},
	{APIGroups: []string{"heartwood.dev"}, Resources: []string{"topics"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}},
}

// plugin runs kubectl heartwood as a ServiceAccount with few permissions.
type plugin struct{ path, kubeconfig string }

// newPlugin creates a ServiceAccount, with a Role and a kubeconfig.
func (e *environment) newPlugin(t *testing.T, name string, rules []rbacv1.PolicyRule) *plugin {
	t.Helper()
	metadata := metav1.ObjectMeta{Name: name, Namespace: e.namespace}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metadata},
		&rbacv1.Role{ObjectMeta: metadata, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: metadata,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name}}},
	} {
		if err := e.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := ctrl.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: admin.Host,
		CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{
		Token: strings.TrimSpace(e.kubectl(t, "create", "token", name))}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e",
		Namespace: e.namespace}
	config.CurrentContext = "e2e"
	file := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return e.linkPlugin(t, file)
}

// linkPlugin returns a plugin that uses a kubeconfig.
func (e *environment) linkPlugin(t *testing.T, kubeconfig string) *plugin {
	t.Helper()
	p := &plugin{path: filepath.Join(t.TempDir(), "kubectl-heartwood"), kubeconfig: kubeconfig}
	binary, err := filepath.Abs("../../bin/heartwood")
	if err == nil {
		err = os.Symlink(binary, p.path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// command returns a command that runs the plugin through kubectl.
func (p *plugin) command(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"heartwood"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig,
		"PATH="+filepath.Dir(p.path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// output runs a command. It returns the command's standard output, standard error and exit code.
func (p *plugin) output(t *testing.T, stdin string, args ...string) (out, errOut string,
	code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := p.command(ctx, stdin, args...)
	var text, errText strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &errText
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return text.String(), errText.String(), code
}

// run runs a command and returns both outputs and the exit code.
func (p *plugin) run(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	out, errOut, code := p.output(t, stdin, args...)
	return out + errOut, code
}

// ok runs a command that must succeed.
func (p *plugin) ok(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, code := p.run(t, stdin, args...)
	if code != 0 {
		t.Errorf("kubectl heartwood %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// volatile matches the parts of an output that differ between two runs, with the padding of their
// columns.
var volatile = regexp.MustCompile(`\b(v?[0-9][0-9A-Za-z.-]*|dev)\b *`)

// kubectlHeartwood runs the plugin against real brokers, with only the permissions in its
// documentation. The port-forwards go through the API server and the kubelets.
func (e *environment) kubectlHeartwood(t *testing.T) {
	p := e.newPlugin(t, "viewer", pluginRules)
	until(t, "a healthy status", func(context.Context) string {
		out, code := p.run(t, "", "status")
		if code != 0 {
			return out
		}
		return ""
	})
	status := strings.ReplaceAll(p.ok(t, "", "status"), e.namespace, "NAMESPACE")
	e.goldenFile(t, "plugin-status.txt", volatile.ReplaceAllString(status, "N "))
	if out := p.ok(t, "", "top", "--limit", "100"); !strings.Contains(out, "ledger") {
		t.Errorf("top shows no replica of topic ledger:\n%s", out)
	}
	if out := p.ok(t, "", "why", "ledger"); strings.Count(out, "(leader)") != 3 {
		t.Errorf("why does not show the leaders of three partitions:\n%s", out)
	}
	lines := "plugin-1\tone\nplugin-2\ttwo\nplugin-1\tthree\n"
	if out := p.ok(t, lines, "produce", "sessions", "-K", "\t"); !strings.Contains(out,
		"3 records acknowledged") {
		t.Errorf("produce: %s", out)
	}
	if out := p.ok(t, "", "tail", "sessions", "-k", "--last", "3"); out != lines {
		t.Errorf("tail: %q, want %q", out, lines)
	}
	p.ok(t, "", "groups")
	p.ok(t, "", "clean", "ledger", "--wait")
	for _, refused := range [][]string{{"restart", "--yes"}, {"pause", "--yes"},
		{"logs"}, {"user", "config", "nobody"}} {
		if out, code := p.run(t, "", refused...); code != 1 || !strings.Contains(out, "forbidden") {
			t.Errorf("kubectl heartwood %v: exit code %d, want a refusal by RBAC\n%s", refused, code,
				out)
		}
	}
	set := &v1alpha1.LogCluster{}
	if err := e.Get(t.Context(), client.ObjectKey{Name: logCluster}, set); err != nil || set.Paused() {
		t.Errorf("the LogCluster is paused: %v", err)
	}
}

// goldenFile compares an output with a golden file; -update writes it.
func (e *environment) goldenFile(t *testing.T, name, output string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(output), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), output); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
