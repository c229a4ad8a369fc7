//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// userRules are the permissions that docs/operate/kubectl-heartwood.md names, besides
// maintainerRules, for user config and user rotate, and for report on a secured LogCluster.
var userRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"heartwood.dev"}, Resources: []string{"logusers"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"heartwood.dev"}, Verbs: []string{"get"},
		Resources: []string{"logclusters/report", "logclusters/metrics"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"},
		Verbs: []string{"create"}},
}

// userCommands runs the commands for LogUser writer, and writes a report on the secured LogCluster.
// The function login uses the LogUser's credentials.
func (e *environment) userCommands(t *testing.T, login func(password string) *kgo.Client) {
	t.Helper()
	const account = "user-maintainer"
	p := e.newPlugin(t, account, slices.Concat(maintainerRules, userRules))
	before := e.writerSecret(t)
	for format, key := range map[string]string{"java": "client.properties",
		"librdkafka": "librdkafka.conf"} {
		if out := p.ok(t, "", "user", "config", "writer", "--format", format); out != before[key] {
			t.Errorf("user config --format %s differs from %s in the Secret", format, key)
		}
	}
	e.userFiles(t, p, before)
	for args, want := range map[string]int{"user config writer --format yaml": 2,
		"user config": 2, "user config nobody": 1, "user rotate writer": 2,
		"user rotate nobody --yes": 1} {
		if out, code := p.run(t, "", strings.Fields(args)...); code != want {
			t.Errorf("kubectl heartwood %s: exit code %d, want %d: %s", args, code, want, out)
		}
	}
	rotate := func(flag string, applied bool) {
		var plan commandPlan
		out := p.ok(t, "", "user", "rotate", "writer", flag, "-o", "json")
		if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Plan) != 2 ||
			plan.Applied == nil || *plan.Applied != applied {
			t.Errorf("user rotate %s: %v: %s", flag, err, out)
		}
	}
	rotate("--dry-run", false)
	var user v1alpha1.LogUser
	if err := e.Get(t.Context(), client.ObjectKey{Name: "writer"}, &user); err != nil ||
		user.Annotations[v1alpha1.AnnotationRotate] != "" {
		t.Errorf("a dry run has changed the LogUser: %+v, %v", user.Annotations, err)
	}
	rotate("--yes", true)
	e.expectRotated(t, before["password"], login)

	file := filepath.Join(t.TempDir(), "report.zip")
	t.Log(p.ok(t, "", "report", "--cluster", securedCluster, "--service-account", account, "--file",
		file))
	archive := e.readReport(t, securedCluster, 2, file)
	if !strings.Contains(archive["resources/secrets.yaml"], "password: <") {
		t.Errorf("the Secret of the LogUser is not in the report:\n%s",
			archive["resources/secrets.yaml"])
	}
}

// writerSecret returns the values of the Secret of LogUser writer.
func (e *environment) writerSecret(t *testing.T) map[string]string {
	t.Helper()
	var secret corev1.Secret
	if err := e.Get(t.Context(), client.ObjectKey{Name: v1alpha1.UserSecretName("writer")},
		&secret); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values
}

// userFiles makes the plugin write the Secret's values to files. Only the owner must be able to
// read them.
func (e *environment) userFiles(t *testing.T, p *plugin, want map[string]string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "writer")
	var written struct {
		Directory string
		Files     []string
	}
	out := p.ok(t, "", "user", "config", "writer", "--directory", directory, "-o", "json")
	if err := json.Unmarshal([]byte(out), &written); err != nil ||
		written.Directory != directory || len(written.Files) != len(want) {
		t.Errorf("user config --directory: %v: %s", err, out)
	}
	for _, name := range written.Files {
		file := filepath.Join(directory, name)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// librdkafka's configuration contains the directory.
		if name != "librdkafka.conf" && string(content) != want[name] {
			t.Errorf("%s differs from the Secret", file)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", file, info.Mode(), err)
		}
	}
}

// expectRotated waits until the Secret has another password and clients can log in with it. The
// previous password must remain valid.
func (e *environment) expectRotated(t *testing.T, previous string,
	login func(password string) *kgo.Client) {
	t.Helper()
	password := ""
	until(t, "another password", func(context.Context) string {
		if password = e.writerSecret(t)["password"]; password == previous {
			return "the Secret has the previous one"
		}
		return ""
	})
	connected := login(password)
	until(t, "login with the new password", func(ctx context.Context) string {
		if err := connected.Ping(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := login(previous).Ping(t.Context()); err != nil {
		t.Errorf("login with the previous password: %v", err)
	}
}
