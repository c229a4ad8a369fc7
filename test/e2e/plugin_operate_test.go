//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Names of the LogCluster in testdata/operated.yaml and of its Topic, which has two replicas.
const (
	operated     = "operated"
	cargo        = "cargo"
	cargoRecords = 4000
)

// maintainerRules are the permissions that docs/operate/kubectl-heartwood.md names for the
// commands that change a LogCluster, and for report.
var maintainerRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"heartwood.dev"}, Verbs: []string{"get", "list"},
		Resources: []string{"logclusters", "topics", "partitionsets", "logusers"}},
	{APIGroups: []string{"heartwood.dev"}, Resources: []string{"logclusters", "topics"},
		Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Verbs: []string{"list"},
		Resources: []string{"persistentvolumeclaims", "services", "secrets", "events"}},
	{APIGroups: []string{"apps"}, Resources: []string{"statefulsets", "deployments"},
		Verbs: []string{"list"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
		Verbs: []string{"list"}},
}

// operatedCluster is the LogCluster in testdata/operated.yaml, with the plugin that has
// maintainerRules.
type operatedCluster struct {
	*environment
	plugin  *plugin
	records []string // records of topic cargo as printed by tail, sorted
}

// operate runs the plugin's commands that change a LogCluster, and checks their effects.
func (e *environment) operate(t *testing.T) {
	o := &operatedCluster{environment: e.of(operated),
		plugin: e.newPlugin(t, "maintainer", maintainerRules)}
	e.atEnd(t, "wait", "--for=delete", "pods,pvc", "-l", "app.kubernetes.io/instance="+operated,
		"--timeout=120s")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/operated.yaml", "--timeout=120s")
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/operated.yaml")
	e.kubectl(t, "wait", "logcluster", operated, "--for=condition=Ready", "--timeout=180s")
	e.kubectl(t, "wait", "topic", cargo, "--for=condition=Ready", "--timeout=60s")
	o.fill(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"status, brokers, topics and logs", o.shows},
		{"wrong usage and refusals", o.refuses},
		{"move", o.moves},
		{"cordon", o.cordons},
		{"drain, and its cancellation", o.drainsOne},
		{"rebalance", o.rebalances},
		{"report", o.reports},
		{"console", o.serves},
		{"pause, restart and resume", o.restarts},
	} {
		if !t.Run(part.name, part.run) {
			return
		}
	}
	o.readAll(t)
	o.restartsAll(t)
}

// run runs a command for the LogCluster.
func (o *operatedCluster) run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	return o.plugin.run(t, "", append(args, "--cluster", operated)...)
}

// ok runs a command that must succeed, and returns its output.
func (o *operatedCluster) ok(t *testing.T, args ...string) string {
	t.Helper()
	return o.plugin.ok(t, "", append(args, "--cluster", operated)...)
}

// json runs a command and decodes its output. The test fails if the exit code is not want.
func (o *operatedCluster) json(t *testing.T, want int, into any, args ...string) {
	t.Helper()
	args = append(args, "--cluster", operated, "-o", "json")
	out, errOut, code := o.plugin.output(t, "", args...)
	if err := json.Unmarshal([]byte(out), into); err != nil || code != want {
		t.Fatalf("kubectl heartwood %s: exit code %d, want %d, %v\n%s%s", strings.Join(args, " "),
			code, want, err, out, errOut)
	}
}

// commandPlan is the output of a command that changes something.
type commandPlan struct {
	Plan    []string
	Applied *bool
}

// plan runs a command that must succeed, and returns its plan. want is true if the plan must be
// applied.
func (o *operatedCluster) plan(t *testing.T, want bool, args ...string) string {
	t.Helper()
	var plan commandPlan
	o.json(t, 0, &plan, args...)
	if plan.Applied == nil || *plan.Applied != want {
		t.Errorf("kubectl heartwood %s: applied is not %t: %+v", strings.Join(args, " "), want, plan)
	}
	t.Logf("kubectl heartwood %s: %q", strings.Join(args, " "), plan.Plan)
	return strings.Join(plan.Plan, "\n")
}

// logCluster returns the LogCluster.
func (o *operatedCluster) logCluster(t *testing.T) *v1alpha1.LogCluster {
	t.Helper()
	found := &v1alpha1.LogCluster{}
	if err := o.Get(t.Context(), client.ObjectKey{Name: operated}, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// waitRun waits until the last run that moves replicas has the given trigger and phase.
func (o *operatedCluster) waitRun(t *testing.T, trigger v1alpha1.RebalanceTrigger,
	phase v1alpha1.RebalancePhase) {
	t.Helper()
	until(t, fmt.Sprintf("run %s is %s", trigger, phase), func(context.Context) string {
		run := o.logCluster(t).Status.Rebalance
		if run == nil || run.Trigger != trigger || run.Phase != phase {
			return fmt.Sprintf("%+v", run)
		}
		return ""
	})
}

// held returns the number of a broker's replicas of topic cargo.
func (o *operatedCluster) held(t *testing.T, broker int32) (count int) {
	t.Helper()
	for _, replicas := range o.assigned(t, cargo) {
		if slices.Contains(replicas, broker) {
			count++
		}
	}
	return count
}

// waitSettled waits until every partition of topic cargo has its target replicas, all in sync.
func (o *operatedCluster) waitSettled(t *testing.T) {
	t.Helper()
	until(t, "partitions of "+cargo+" are as assigned", func(ctx context.Context) string {
		all, err := o.partitions(ctx, cargo)
		if err != nil || len(all) != 4 {
			return fmt.Sprintf("%d partitions, %v", len(all), err)
		}
		for index, p := range all {
			if !slices.Equal(p.Replicas, p.Target) || len(p.ISR) != len(p.Target) {
				return fmt.Sprintf("partition %d has replicas %v, target %v, ISR %v", index, p.Replicas,
					p.Target, p.ISR)
			}
		}
		return ""
	})
}

// fill writes 16 MB of incompressible records, which makes a copy with a low rate take long.
func (o *operatedCluster) fill(t *testing.T) {
	for i := range cargoRecords {
		var value strings.Builder
		for range 160 {
			value.WriteString(rand.Text())
		}
		o.records = append(o.records, fmt.Sprintf("%d\t%s", i, value.String()))
	}
	input := strings.Join(o.records, "\n") + "\n"
	slices.Sort(o.records)
	if out := o.plugin.ok(t, input, "produce", cargo, "-K", "\t", "--cluster",
		operated); !strings.Contains(out, fmt.Sprint(cargoRecords, " records acknowledged")) {
		t.Fatalf("produce: %s", out)
	}
}

// readAll reads topic cargo.
func (o *operatedCluster) readAll(t *testing.T) {
	t.Helper()
	read := strings.Split(strings.TrimSuffix(o.ok(t, "tail", cargo, "-k", "--from-start"), "\n"),
		"\n")
	slices.Sort(read)
	if !slices.Equal(read, o.records) {
		t.Errorf("%d records were read, and %d were written", len(read), len(o.records))
	}
}

// shownStatus is the part of the output of status and brokers that shows reads.
type shownStatus struct {
	Degraded *bool
	Brokers  []struct {
		ID    int32
		Ready bool
		Node  string
	}
	Findings []struct{ Subject, Reason string }
}

// shownTopics is the part of the output of topics that shows reads.
type shownTopics struct {
	Topics []struct{ Name string }
}

// shows checks the outputs and the exit codes 0 and 3. A Topic with too many replicas is not ready.
func (o *operatedCluster) shows(t *testing.T) {
	until(t, "a healthy status", func(context.Context) string {
		if out, code := o.run(t, "status"); code != 0 {
			return out
		}
		return ""
	})
	var status, brokers shownStatus
	var topics shownTopics
	o.json(t, 0, &status, "status")
	o.json(t, 0, &brokers, "brokers")
	o.json(t, 0, &topics, "topics")
	if status.Degraded == nil || *status.Degraded {
		t.Errorf("status %+v, want one that is not degraded", status)
	}
	if len(brokers.Brokers) != 3 {
		t.Errorf("brokers %+v, want three", brokers)
	}
	if len(topics.Topics) != 1 || topics.Topics[0].Name != cargo {
		t.Errorf("topics %+v, want %s only", topics, cargo)
	}
	for _, b := range brokers.Brokers {
		if node := o.node(t, v1alpha1.BrokerLeaseName(operated, b.ID)); !b.Ready || b.Node != node {
			t.Errorf("broker %d: ready %t, node %q, want %q", b.ID, b.Ready, b.Node, node)
		}
	}
	if out := o.ok(t, "logs", "--last", "2"); strings.Count(out, "\n") != 6 {
		t.Errorf("logs of three brokers: %s", out)
	}

	o.create(t, "crowded", v1alpha1.TopicSettings{Replicas: new(int32(4))})
	until(t, "topics to be degraded", func(context.Context) string {
		if out, code := o.run(t, "topics"); code != 3 {
			return fmt.Sprintf("exit code %d: %s", code, out)
		}
		return ""
	})
	o.json(t, 3, &topics, "topics")
	o.json(t, 3, &status, "status")
	if len(topics.Topics) != 2 || !*status.Degraded || len(status.Findings) == 0 ||
		status.Findings[0].Subject != "Topic crowded" {
		t.Errorf("with a Topic that is not ready: status %+v, topics %+v", status, topics)
	}
}

// create creates a Topic of the LogCluster. The Topic is deleted at the end of the test.
func (o *operatedCluster) create(t *testing.T, name string, settings v1alpha1.TopicSettings) {
	t.Helper()
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.TopicSpec{Cluster: operated, Partitions: 3, TopicSettings: settings,
			ReclaimPolicy: v1alpha1.ReclaimDelete}}
	if err := o.Create(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	o.atEnd(t, "delete", "topic", name, "--timeout=60s")
}

// refuses checks the exit codes 1 and 2. A command that fails must change nothing.
func (o *operatedCluster) refuses(t *testing.T) {
	before, topic := o.logCluster(t), &v1alpha1.Topic{}
	if err := o.Get(t.Context(), client.ObjectKey{Name: cargo}, topic); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		command string
		code    int
		message string
	}{
		{"unpause", 2, "unknown command"},
		{"status -o yaml", 2, "give text or json"},
		{"restart", 2, "confirm the plan with --yes"},
		{"restart --broker 7 --yes", 1, "has no broker 7"},
		{"pause", 2, "confirm the plan with --yes"},
		{"rebalance --cancel", 2, "confirm the plan with --yes"},
		{"move cargo 0,1 --yes", 2, "give TOPIC/PARTITION"},
		{"move cargo/0 0,0 --yes", 2, "give different broker ids"},
		{"move cargo/0 0,9 --yes", 1, "has no broker 9"},
		{"move cargo/0 0 --yes", 1, "has 2 replicas"},
		{"move cargo/99 0,1 --yes", 1, "has no partition 99"},
		{"drain --yes", 2, "give the id of a BROKER"},
		{"drain 9 --yes", 2, "has the brokers 0 to 2"},
		{"drain 1 2 --yes", 1, "cannot leave broker "},
		{"cordon x --yes", 2, "has the brokers 0 to 2"},
		{"accept-loss cargo/0 --name cargo/0", 1, "there is nothing to accept"},
	} {
		out, code := o.run(t, strings.Fields(refused.command)...)
		if code != refused.code || !strings.Contains(out, refused.message) {
			t.Errorf("kubectl heartwood %s: exit code %d, want %d and %q: %s", refused.command, code,
				refused.code, refused.message, out)
		}
	}
	if out, code := o.plugin.run(t, "", "status"); code != 1 || !strings.Contains(out,
		"choose one with --cluster") {
		t.Errorf("status of two LogClusters: exit code %d: %s", code, out)
	}
	o.expectUnchanged(t, before)
	after := &v1alpha1.Topic{}
	if err := o.Get(t.Context(), client.ObjectKeyFromObject(topic), after); err != nil ||
		after.Generation != topic.Generation || len(after.Annotations) != len(topic.Annotations) {
		t.Errorf("the Topic was %+v and is %+v, %v", topic.ObjectMeta, after.ObjectMeta, err)
	}
}

// expectUnchanged checks that the LogCluster's spec and annotations have not changed.
func (o *operatedCluster) expectUnchanged(t *testing.T, before *v1alpha1.LogCluster) {
	t.Helper()
	if now := o.logCluster(t); now.Generation != before.Generation ||
		now.Annotations[v1alpha1.AnnotationRebalance] !=
			before.Annotations[v1alpha1.AnnotationRebalance] ||
		len(now.Annotations) != len(before.Annotations) {
		t.Errorf("the LogCluster was %+v and is %+v", before.ObjectMeta, now.ObjectMeta)
	}
}

// moves moves a partition to the broker that has no replica of it.
func (o *operatedCluster) moves(t *testing.T) {
	present := o.partition(t, cargo, 0).Replicas
	third := 3 - present[0] - present[1]
	target := []int32{third, present[0]}
	args := []string{"move", cargo + "/0", list(target)}
	o.plan(t, false, append(args, "--dry-run")...)
	if now := o.partition(t, cargo, 0).Target; !slices.Equal(now, present) {
		t.Errorf("a dry run has moved the partition from %v to %v", present, now)
	}
	if plan := o.plan(t, true, append(args, "--yes")...); !strings.Contains(plan,
		fmt.Sprintf("broker %d copies the records", third)) {
		t.Errorf("plan: %s", plan)
	}
	until(t, "replicas moved", func(ctx context.Context) string {
		all, err := o.partitions(ctx, cargo)
		if p := all[0]; err != nil || !slices.Equal(p.Replicas, target) || len(p.ISR) != 2 {
			return fmt.Sprintf("replicas %v, ISR %v, want %v, %v", p.Replicas, p.ISR, target, err)
		}
		return ""
	})
	o.plan(t, false, append(args, "--yes")...)
}

// cordons cordons a broker, and checks that the broker gets no replica of a new Topic.
func (o *operatedCluster) cordons(t *testing.T) {
	before := o.logCluster(t)
	o.plan(t, false, "cordon", "2", "--dry-run")
	o.expectUnchanged(t, before)
	o.plan(t, true, "cordon", "2", "--yes")
	if now := o.logCluster(t).Spec.Cordoned; !slices.Equal(now, []int32{2}) {
		t.Errorf("spec.cordoned is %v", now)
	}
	o.create(t, "later", v1alpha1.TopicSettings{})
	o.kubectl(t, "wait", "topic", "later", "--for=condition=Ready", "--timeout=60s")
	for index, replicas := range o.assigned(t, "later") {
		if slices.Contains(replicas, 2) {
			t.Errorf("partition %d was placed on brokers %v, and broker 2 is cordoned", index, replicas)
		}
	}
	o.plan(t, true, "cordon", "2", "--undo", "--yes")
	if now := o.logCluster(t).Spec.Cordoned; len(now) > 0 {
		t.Errorf("spec.cordoned is %v", now)
	}
}

// drainsOne drains a broker, cancels the drain while it is slow, and lets it continue.
func (o *operatedCluster) drainsOne(t *testing.T) {
	const id = 1
	o.patch(t, `{"spec":{"rebalance":{"rate":"1Ki"}}}`)
	before := o.logCluster(t)
	plan := o.plan(t, false, "drain", "1", "--dry-run")
	if moves := strings.Count(plan, "from broker 1 to broker "); moves == 0 ||
		moves != o.held(t, id) {
		t.Errorf("%d moves are planned for %d replicas: %s", moves, o.held(t, id), plan)
	}
	o.expectUnchanged(t, before)
	o.plan(t, true, "drain", "1", "--yes")
	if now := o.logCluster(t).Spec.Drain; !slices.Equal(now, []int32{id}) {
		t.Errorf("spec.drain is %v", now)
	}
	o.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceMoving)
	if out, code := o.run(t, "status"); code != 0 || !strings.Contains(out, "rebalance --cancel") {
		t.Errorf("status during a drain: exit code %d: %s", code, out)
	}

	o.plan(t, true, "rebalance", "--cancel", "--yes")
	if now := o.logCluster(t).Annotations[v1alpha1.AnnotationRebalance]; now !=
		v1alpha1.RebalanceCancel {
		t.Errorf("annotation %s is %q", v1alpha1.AnnotationRebalance, now)
	}
	o.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceCancelled)
	o.waitSettled(t)
	if o.held(t, id) == 0 {
		t.Error("broker 1 was drained although the drain was cancelled")
	}

	o.patch(t, `{"spec":{"rebalance":null}}`) // removes the limit of the rate
	o.plan(t, true, "rebalance", "--yes")
	o.kubectl(t, "wait", "logcluster", operated, "--for=condition=Drained", "--timeout=120s")
	if held := o.held(t, id); held > 0 {
		t.Errorf("broker 1 holds %d replicas after the drain", held)
	}
	o.plan(t, true, "drain", "1", "--undo", "--yes")
	if now := o.logCluster(t).Spec.Drain; len(now) > 0 {
		t.Errorf("spec.drain is %v", now)
	}
}

// rebalances fills the empty broker with its share of replicas again.
func (o *operatedCluster) rebalances(t *testing.T) {
	before := o.logCluster(t)
	if plan := o.plan(t, false, "rebalance", "--dry-run"); !strings.Contains(plan,
		"copy the replica of "+cargo) || !strings.Contains(plan, "to broker 1") {
		t.Errorf("plan: %s", plan)
	}
	o.expectUnchanged(t, before)
	o.plan(t, true, "rebalance", "--yes")
	request := o.logCluster(t).Annotations[v1alpha1.AnnotationRebalance]
	until(t, "the run that was requested is done", func(context.Context) string {
		run := o.logCluster(t).Status.Rebalance
		if run == nil || run.Request != request || run.Phase != v1alpha1.RebalanceDone ||
			run.Trigger != v1alpha1.TriggerManual {
			return fmt.Sprintf("%+v, want request %q", run, request)
		}
		return ""
	})
	o.waitSettled(t)
	if o.held(t, 1) == 0 {
		t.Error("broker 1 got no replica")
	}
}
