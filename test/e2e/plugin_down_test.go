//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// oneBrokerDown runs the commands of kubectl heartwood while the pod of one broker does not exist.
// Every partition has a leader then, so each command must do its work, however often it is run: the
// broker that is down is the first one that a client tries in some of the runs.
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
		// The exit code 3 says that a broker is down.
		if out, code := viewer.run(t, "", args...); code != 0 && code != 3 {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
}
