//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneBrokerDown runs the commands of kubectl heartwood while one broker's pod does not exist. Every
// partition still has a leader, so each command must work, however often it is run. In some of the
// runs, the broker that is down is the first broker that a client tries.
func (e *environment) oneBrokerDown(t *testing.T) {
	const down = logCluster + "-broker-2"
	e.kubectl(t, "annotate", "logcluster", logCluster, "heartwood.dev/paused=true")
	defer func() {
		e.kubectl(t, "annotate", "logcluster", logCluster, "heartwood.dev/paused-")
		e.kubectl(t, "wait", "--for=condition=Ready", "logcluster/"+logCluster, "--timeout=5m")
		e.kubectl(t, "wait", "--for=condition=Replicated", "logcluster/"+logCluster,
			"--timeout=5m")
	}()
	e.kubectl(t, "scale", "statefulset", logCluster+"-broker", "--replicas=2")
	e.kubectl(t, "wait", "--for=delete", "pod/"+down, "--timeout=2m")
	e.kubectl(t, "wait", "--for=condition=Ready", "topic/sessions", "--timeout=2m")

	viewer := e.newPlugin(t, "viewer-down", pluginRules)
	for range 6 {
		if out := viewer.ok(t, "down-1\tone\n", "produce", "sessions", "-K", "\t"); !strings.Contains(
			out, "1 records acknowledged") {
			t.Errorf("produce: %s", out)
		}
		if out := viewer.ok(t, "", "tail", "sessions", "-k", "--last", "1"); !strings.Contains(out,
			"down-1") {
			t.Errorf("tail: %q", out)
		}
		viewer.ok(t, "", "groups")
	}
	viewer.ok(t, "", "clean", "ledger")
	for _, args := range [][]string{{"status"}, {"brokers"}, {"topics"}, {"top"},
		{"why", "sessions"}} {
		// Exit code 3 means that a broker is down.
		if out, code := viewer.run(t, "", args...); code != 0 && code != 3 {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
	e.operateOneBrokerDown(t)
}

// operateOneBrokerDown runs the commands for operating a LogCluster. Commands that change something
// only print their plan. Some commands refuse, with the reason.
func (e *environment) operateOneBrokerDown(t *testing.T) {
	operator := e.linkPlugin(t, os.Getenv("KUBECONFIG"))
	report := filepath.Join(t.TempDir(), "report.zip")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"logs", "--last", "1"}, 1, "read the log of pod " + logCluster + "-broker-2"},
		{[]string{"report", "--file", report}, 0, "report.zip written"},
		{[]string{"retained"}, 0, "Broker 2 has not answered"},
		{[]string{"rebalance", "--dry-run"}, 0, "broker 2 did not answer: no move begins"},
		{[]string{"drain", "0", "--dry-run"}, 1, "cannot leave broker 0"},
		{[]string{"cordon", "0", "--dry-run"}, 0, "set spec.cordoned"},
		{[]string{"move", "sessions/0", "2,1,0", "--dry-run"}, 0, ""},
		{[]string{"restart", "--dry-run"}, 0, "restarts its 3 brokers"},
		{[]string{"pause", "--dry-run"}, 0, "unchanged"},
		{[]string{"resume", "--dry-run"}, 0, "remove annotation heartwood.dev/paused"},
		{[]string{"approve", "--dry-run"}, 0, "no approval is needed"},
		{[]string{"accept-loss", "sessions/0", "--name", "sessions/0"}, 1, "UnderReplicated"},
	} {
		out, code := operator.run(t, "", append(c.args, "--namespace", e.namespace)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}
