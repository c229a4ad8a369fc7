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
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/pages"
)

// watched matches commands that run until they are ended.
var watched = regexp.MustCompile(` (-w|--watch|-f|--follow)\b|^kubectl heartwood console\b`)

// asks matches commands that print their plan and ask for confirmation. The step does not confirm.
// It runs such commands in sentences with --dry-run, which checks their arguments and computes the
// plan. Such commands in code blocks have --yes.
var asks = regexp.MustCompile(
	`^kubectl heartwood (-n \S+ )?(restart|move|rebalance|cordon|groups \S+ --reset)\b`)

// shell runs commands in the test's namespace, like a reader of the documents.
type shell struct {
	*plugin
	values map[string]string // values of the placeholders
}

// commandsOfPages runs the commands in the runbooks and in docs/operate. It first runs the commands
// in code blocks, in the order of the pages, and then the commands in sentences
// and tables. Each must succeed. Before and after commands that change the LogCluster, the step
// brings the LogCluster into the state that the page assumes.
func (e *environment) commandsOfPages(t *testing.T) {
	commands, err := pages.All(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	s := e.newShell(t)
	if e.transactionalID(t) == "" { // true if no earlier step has left an id and a group
		e.copying(t, func(t *testing.T) { e.waitCopying(t) })
	}
	s.values["TRANSACTIONAL-ID"], s.values["GROUP"] = e.transactionalID(t), s.group(t)
	for _, c := range commands {
		if _, reason, untested := c.Reason(); untested {
			t.Logf("not run: %s (%s)", c, reason)
			continue
		}
		e.prepare(t, s, c)
		s.run(t, c)
		e.restore(t, s, c)
	}
	e.waitReady(t, 1, topics)
	e.waitInSync(t)
}

// newShell returns a shell whose PATH contains kubectl heartwood and Helm. The context uses the
// test's namespace.
func (e *environment) newShell(t *testing.T) *shell {
	t.Helper()
	content, err := os.ReadFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), "", "kubectl", "--kubeconfig", file, "config", "set-context",
		"--current", "--namespace", e.namespace); err != nil {
		t.Fatal(err)
	}
	p := e.linkPlugin(t, file)
	program, err := helmProgram(t.Context())
	if err == nil {
		err = os.Symlink(program, filepath.Join(filepath.Dir(p.path), "helm"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &shell{p, map[string]string{"NAMESPACE": e.namespace,
		"OPERATOR-NAMESPACE": e.namespace, "CLUSTER": e.cluster, "POD": brokerPod(0),
		"TOPIC": "tickets", "PARTITION": "0"}}
}

// transactionalID returns one of the LogCluster's transactional ids, or "" if there is none.
func (e *environment) transactionalID(t *testing.T) string {
	t.Helper()
	out := e.kubectl(t, "exec", brokerPod(0), "--", "heartwood", "transactions")
	lines := strings.Split(out, "\n")
	if len(lines) < 2 || strings.TrimSpace(lines[1]) == "" {
		return ""
	}
	return strings.Fields(lines[1])[0]
}

// group returns a consumer group without members.
func (s *shell) group(t *testing.T) string {
	t.Helper()
	out := s.ok(t, "", "groups")
	found := regexp.MustCompile(`(?m)^(\S+) +Empty `).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no group without members: %s", out)
	}
	return found[1]
}

// run runs a command, which must succeed. Exit code 3 of kubectl heartwood counts as success: it
// reports that something is degraded. A grep without a match counts as success, too.
func (s *shell) run(t *testing.T, c pages.Command) {
	t.Helper()
	text, _, _ := strings.Cut(c.Substitute(s.values), "   #")
	text = regexp.MustCompile(`\| (grep .*)$`).ReplaceAllString(text,
		`| { $1 || [ $$? = 1 ]; }`)
	if c.Inline && asks.MatchString(text) {
		text += " --dry-run"
	}
	limit := deadline
	if watched.MatchString(text) {
		limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", text)
	if cmd.Dir = "../.."; c.Inline {
		cmd.Dir = t.TempDir() // kubectl heartwood report writes a file there
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig,
		"PATH="+filepath.Dir(s.path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	degraded := errors.As(err, &exit) && exit.ExitCode() == 3 &&
		strings.HasPrefix(text, "kubectl heartwood")
	switch {
	case err == nil, degraded, watched.MatchString(text) && ctx.Err() != nil && len(out) > 0:
		t.Logf("%s", c)
	default:
		t.Errorf("%s: %v\n%s", c, err, out)
	}
}

// prepare brings the LogCluster into the state that a page assumes for a command.
func (e *environment) prepare(t *testing.T, s *shell, c pages.Command) {
	t.Helper()
	switch {
	case strings.HasPrefix(c.Text, "kubectl heartwood approve --dry-run"):
		// The pod template must change, because a restart that the annotation requests needs no approval.
		e.patch(t, `{"spec":{"rollout":{"policy":"OnApproval"},`+
			`"resources":{"requests":{"cpu":"120m","memory":"256Mi"}}}}`)
		e.waitRollout(t, v1alpha1.ReasonApprovalRequired, "")
	case strings.HasPrefix(c.Text, "kubectl wait --for=condition=RollingOut --timeout="):
		e.restartAll(t) // the page assumes an earlier upgrade of the operator, which restarts all brokers
	case strings.Contains(c.Text, `"drain":[1]`):
		// Broker 1 may be the only broker in its zone.
		e.kubectl(t, "annotate", "logcluster", e.cluster, "--overwrite",
			v1alpha1.AnnotationDrainAnyway+"=true")
	case strings.HasPrefix(c.Text, "kubectl heartwood retained remove"):
		s.values["TOPIC"] = copied // an earlier step has deleted this Topic
	}
}

// restore ends processes that a command has begun, if the page describes their end only in words.
func (e *environment) restore(t *testing.T, s *shell, c pages.Command) {
	t.Helper()
	switch {
	case strings.Contains(c.Text, `"cordoned":[2]`):
		e.patch(t, `{"spec":{"cordoned":null}}`)
	case strings.Contains(c.Text, "condition=Drained"):
		e.patch(t, `{"spec":{"drain":null}}`)
		e.kubectl(t, "annotate", "logcluster", e.cluster, v1alpha1.AnnotationDrainAnyway+"-")
	case strings.HasPrefix(c.Text, "kubectl heartwood approve --yes"):
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
		e.patch(t, `{"spec":{"rollout":null}}`)
	case !c.Inline && strings.HasPrefix(c.Text, "kubectl heartwood restart "):
		e.waitRolling(t)
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
	case strings.HasPrefix(c.Text, "kubectl heartwood retained remove"):
		s.values["TOPIC"] = "tickets"
		left := e.kubectl(t, "get", "logcluster", e.cluster, "-o",
			"jsonpath={.status.retainedTopics[*].topic}")
		if strings.Contains(left, copied) {
			until(t, "records removed", func(ctx context.Context) string {
				out, err := command(ctx, "", "kubectl", "-n", e.namespace, "get", "logcluster",
					e.cluster, "-o", "jsonpath={.status.retainedTopics[*].topic}")
				if err != nil || strings.Contains(out, copied) {
					return out
				}
				return ""
			})
		}
	}
}
