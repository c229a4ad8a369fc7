package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestCommands(t *testing.T) {
	f := newFixture(t)
	runAs(t.Context(), f.kubeconfig, "", "status").fails(t, "has no LogCluster: choose another one")
	f.createCluster(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"status", f.testStatus}, {"restricted", f.testRestricted}, {"topics", f.testTopics},
		{"records", f.testRecords}, {"why", f.testWhy}, {"groups", f.testGroups},
		{"topic of a reset", f.testResetTopic},
		{"clean", f.testClean}, {"clean as JSON", f.testCleanJSON},
		{"clean without cleaner", f.testCleanDisabled}, {"restart", f.testRestart}, {"pause", f.testPause},
		{"approve", f.testApprove},
		{"move", f.testMove}, {"balance", f.testBalance},
		{"balance while paused", f.testBalancePaused},
		{"drain of a broker that is down", f.testDrainDown}, {"console", f.testConsole},
		{"user", f.testUser}, {"rotate refused", f.testRotateRefused},
		{"loss that is not listed", f.testAcceptUnlisted},
		{"pressure", f.testPressure}, {"scrub", f.testScrub},
		{"accept loss", f.testAcceptLoss}, {"retained", f.testRetained},
		{"report", f.testReport}, {"secured", f.testSecured}, {"two clusters", f.testTwoClusters},
	} {
		t.Run(step.name, step.run)
	}
}

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason,
		Message: message, LastTransitionTime: metav1.Now()}
}

func podReady(status corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// createCluster creates a LogCluster with one broker and the Topics tickets and logs.
func (f *fixture) createCluster(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 1}}
	createWithStatus(t, f, cluster, func(c *v1alpha1.LogCluster) {
		c.Status = v1alpha1.LogClusterStatus{ObservedGeneration: c.Generation, ReadyBrokers: 1,
			Bootstrap: "main-bootstrap.logs.svc:9092", Topics: 2, Partitions: 3,
			Brokers: []v1alpha1.BrokerStatus{{ID: 0, Ready: true, Version: "v1.0.0", Leaders: 3,
				Rack: "a", Volume: &v1alpha1.BrokerVolume{UsedPercent: 45, TotalBytes: 10 << 30,
					Pressure: "None"}}},
			Rebalance: &v1alpha1.RebalanceStatus{Phase: v1alpha1.RebalanceDone,
				Trigger: v1alpha1.TriggerManual, Moves: 2, MovesDone: 2, BytesDone: 1 << 20,
				BytesTotal: 1 << 20, CompletionTime: new(metav1.NewTime(time.Now()))},
			NextCertificateExpiry: &v1alpha1.CertificateExpiry{Certificate: "peer.0",
				Time: metav1.Date(2126, 1, 2, 0, 0, 0, 0, time.UTC)},
			Conditions: []metav1.Condition{condition("Ready", "True", "Ready", "All brokers are up."),
				condition("Applied", "True", "Applied", "The spec is applied.")}}
	})
	createWithStatus(t, f, &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "tickets"},
		Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: 2}}, func(topic *v1alpha1.Topic) {
		topic.Status = v1alpha1.TopicStatus{Partitions: 2, ReadyPartitions: 2,
			Compaction: &v1alpha1.CompactionStatus{DirtyPercent: new(int32(37)), Phase: "Rewriting",
				Reclaimable:     new(resource.MustParse("3Mi")),
				ProgressPercent: new(int32(40)), LastCleanTime: &metav1.Time{Time: time.Now()}},
			Conditions: []metav1.Condition{condition("Ready", "True", "Ready", ""),
				condition("Compacting", "True", "Cleaning", "")}}
	})
	createWithStatus(t, f, &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "logs"},
		Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: 1, TopicName: "Logs"}},
		func(topic *v1alpha1.Topic) {
			topic.Status = v1alpha1.TopicStatus{Partitions: 1, ReadyPartitions: 1,
				Conditions: []metav1.Condition{condition("Ready", "True", "Ready", "")}}
		})
	createWithStatus(t, f, pod(0), func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "broker", Ready: true,
			RestartCount: 2}}
		p.Status.Conditions = podReady("True")
	})
	set := &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Name: "main-0"},
		Spec: v1alpha1.PartitionSetSpec{Cluster: "main", Count: 1,
			Assignments: map[string]string{"tickets/0": "0 abcdefgh", "tickets/1": "0 abcdefgh"}}}
	createWithStatus(t, f, set, func(s *v1alpha1.PartitionSet) {
		s.Status.Partitions = map[string]string{"tickets/0": "0@3 0:7 k3f9x2ab 5"}
	})
}

// change changes an object's status.
func change[T client.Object](t *testing.T, f *fixture, name string, object T, set func(T)) {
	t.Helper()
	get(t, f, name, object)
	set(object)
	if err := f.api.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) testStatus(t *testing.T) {
	f.golden(t, "status.txt", f.run(t, "status").ok(t))
	f.golden(t, "status.json", f.run(t, "status", "-o", "json").ok(t))
	f.golden(t, "brokers.txt", f.run(t, "brokers").ok(t))
	change(t, f, "main-broker-0", &corev1.Pod{}, func(p *corev1.Pod) {
		p.Status.Conditions = podReady("False")
	})
	f.golden(t, "status-outdated.txt", f.run(t, "status").degraded(t))
	f.golden(t, "brokers-outdated.txt", f.run(t, "brokers").degraded(t))
	change(t, f, "main-broker-0", &corev1.Pod{}, func(p *corev1.Pod) {
		p.Status.Conditions = podReady("True")
	})
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.Brokers[0].Ready = false
		c.Status.Conditions[0] = condition("Ready", "False", "BrokersNotReady",
			"Broker 0 is not up.")
		c.Status.Conditions = append(c.Status.Conditions, condition("RollingOut", "True",
			"Restarting", "Broker 0 is being restarted."))
	})
	f.golden(t, "status-degraded.txt", f.run(t, "status").degraded(t))
	f.run(t, "brokers", "-o", "json").degraded(t)
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.Brokers[0].Ready = true
		c.Status.Conditions = []metav1.Condition{condition("Ready", "True", "Ready", "")}
	})
	f.run(t, "status", "-o", "yaml").fails(t, `invalid argument "yaml" for --output`)
	f.run(t, "status", "--cluster", "other").fails(t, "has no LogCluster other")
}

// testRestricted checks that a command shows a user with few rights the resources that the user may
// read, and a line about the others.
func (f *fixture) testRestricted(t *testing.T) {
	r := runAs(t.Context(), f.restricted, "", "status")
	f.golden(t, "status-restricted.txt", r.ok(t)+r.errOut)
	runAs(t.Context(), f.restricted, "", "restart", "--yes").fails(t, "forbidden")
	runAs(t.Context(), f.restricted, "", "user", "config", "app").fails(t, "forbidden")
	runAs(t.Context(), f.restricted, "", "why", "tickets").ok(t)
}

// testRecords writes records to a real broker and reads them, through a forwarded port.
func (f *fixture) testRecords(t *testing.T) {
	lines := "T-1\tprinter on fire\nT-1\tfire out\n"
	r := runAs(t.Context(), f.kubeconfig, lines, "produce", "tickets", "-K", "\t", "--partition",
		"0")
	if got := r.ok(t); got != "2 records acknowledged\n" {
		t.Errorf("produce: %q", got)
	}
	if got := f.run(t, "tail", "tickets", "-k", "--partition", "0").ok(t); got != lines {
		t.Errorf("tail: %q", got)
	}
	if got := f.run(t, "tail", "tickets", "--offsets", "--last", "1").ok(t); got !=
		"0\t1\tfire out\n" {
		t.Errorf("tail of the last offset: %q", got)
	}
	f.golden(t, "tail.json", f.run(t, "tail", "tickets", "-o", "json").ok(t))
	f.run(t, "tail", "absent").fails(t, "topic absent in namespace "+f.namespace+": not found")
	f.run(t, "tail", "tickets", "--listener", "tls").fails(t, "has no listener tls")
	f.run(t, "tail").fails(t, "give one TOPIC\nsee 'kubectl heartwood tail --help'")
	runAs(t.Context(), f.kubeconfig, "x\n", "produce", "tickets").fails(t, "write to topic tickets")
}

func (f *fixture) testWhy(t *testing.T) {
	out := f.run(t, "why", "tickets").ok(t)
	if !strings.Contains(out, "the cleaner is disabled: set spec.cleaner.workers") {
		t.Errorf("why:\n%s", out)
	}
	var got struct {
		Replicas []struct {
			Partition int32
			Leader    bool
			Reason    string
		}
	}
	decode(t, f.run(t, "why", "tickets", "-o", "json").ok(t), &got)
	if len(got.Replicas) != 2 || !got.Replicas[1].Leader || got.Replicas[1].Partition != 1 ||
		got.Replicas[1].Reason != v1alpha1.ReasonCleanerDisabled {
		t.Errorf("why: %+v", got)
	}
	out = f.run(t, "top").ok(t)
	if strings.Count(out, "tickets") != 2 || !strings.HasPrefix(out, "TOPIC") {
		t.Errorf("top:\n%s", out)
	}
	f.testSilentBroker(t)
	f.testLeaderless(t)
	f.run(t, "top", "--sort", "name").fails(t, `invalid argument "name" for --sort`)
	for _, limit := range []string{"0", "-1"} {
		f.run(t, "top", "--limit", limit).fails(t, "invalid argument "+limit+" for --limit")
	}
}

// testSilentBroker checks what top and why print if a broker does not respond.
func (f *fixture) testSilentBroker(t *testing.T) {
	var before []v1alpha1.BrokerStatus
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		before = c.Status.Brokers
		c.Status.Brokers = append(slices.Clone(before), v1alpha1.BrokerStatus{ID: 7})
	})
	for _, args := range [][]string{{"top"}, {"why", "tickets"}} {
		f.run(t, args...).degraded(t)
		var got struct{ Missing []silent }
		decode(t, f.run(t, append(args, "-o", "json")...).degraded(t), &got)
		if len(got.Missing) != 1 || got.Missing[0].Broker != 7 {
			t.Errorf("%v: missing %v", args, got.Missing)
		}
	}
	change(t, f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Status.Brokers = before
	})
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func (f *fixture) testGroups(t *testing.T) {
	if got := f.run(t, "groups").ok(t); !strings.HasPrefix(got, "GROUP") {
		t.Errorf("groups: %q", got)
	}
	args := []string{"groups", "billing", "--topic", "tickets", "--reset"}
	f.run(t, append(args, "noon")...).fails(t, `invalid argument "noon" for --reset`)
	f.run(t, append(args, "1")...).fails(t, "confirm the plan with --yes")
	f.golden(t, "groups-plan.txt", f.run(t, append(args, "1", "--dry-run")...).ok(t))
	f.run(t, append(args, "1", "--yes")...).ok(t)
	f.golden(t, "groups.txt", f.run(t, "groups").ok(t))
	f.golden(t, "group.txt", f.run(t, "groups", "billing").ok(t))
	f.golden(t, "groups.json", f.run(t, "groups", "-o", "json").ok(t))
	f.run(t, "groups", "--reset", "1").fails(t, "--reset needs one GROUP")
}

func (f *fixture) testClean(t *testing.T) {
	f.run(t, "clean", "logs").fails(t, "topic logs is not compacted")
	f.run(t, "clean", "tickets").ok(t)
	asked := get(t, f, "tickets", &v1alpha1.Topic{}).CleanNow()
	if !strings.HasPrefix(asked, "kubectl-") {
		t.Errorf("annotation %q", asked)
	}
	done := f.awaitClean(t.Context(), t)
	f.reportClean(t, asked)
	if out := (<-done).ok(t); !strings.HasSuffix(out, "tickets: done, 2/2 replicas cleaned\n") {
		t.Errorf("clean --wait: %q", out)
	}
}

func (f *fixture) testRestart(t *testing.T) {
	f.run(t, "restart").fails(t, "confirm the plan with --yes")
	f.golden(t, "restart.txt", f.run(t, "restart", "--dry-run").ok(t))
	annotation := func(object client.Object) string {
		return object.GetAnnotations()[v1alpha1.AnnotationRestart]
	}
	if got := annotation(get(t, f, "main", &v1alpha1.LogCluster{})); got != "" {
		t.Fatalf("a dry run has set %q", got)
	}
	f.run(t, "restart", "--yes").ok(t)
	if got := annotation(get(t, f, "main", &v1alpha1.LogCluster{})); got == "" {
		t.Error("no annotation on the LogCluster")
	}
	f.run(t, "restart", "--broker", "3", "--yes").fails(t, "has no broker 3")
	f.run(t, "restart", "--broker", "0", "--yes").ok(t)
	if got := annotation(get(t, f, "main-broker-0", &corev1.Pod{})); got == "" {
		t.Error("no annotation on the pod")
	}
}

func (f *fixture) testPause(t *testing.T) {
	f.run(t, "pause", "--yes").ok(t)
	if !get(t, f, "main", &v1alpha1.LogCluster{}).Paused() {
		t.Error("not paused")
	}
	if out := f.run(t, "pause", "--yes").ok(t); !strings.Contains(out, "unchanged") {
		t.Errorf("paused twice: %q", out)
	}
	if out := f.run(t, "restart", "--dry-run").ok(t); !strings.Contains(out, "is paused") {
		t.Errorf("the plan of a restart: %q", out)
	}
	f.run(t, "resume", "--yes").ok(t)
	if get(t, f, "main", &v1alpha1.LogCluster{}).Paused() {
		t.Error("still paused")
	}
}

func (f *fixture) testMove(t *testing.T) {
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Brokers = 3
	if err := f.api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	f.run(t, "move", "tickets", "1").fails(t, "give TOPIC/PARTITION, such as tickets/0")
	f.run(t, "move", "tickets/0", "1,1").fails(t, "give different broker ids")
	f.run(t, "move", "tickets/0", "7").fails(t, "has no broker 7")
	f.run(t, "move", "tickets/0", "1,2").fails(t, "has 1 replicas: give 1 brokers")
	f.run(t, "move", "tickets/9", "1").fails(t, "topic tickets has no partition 9")
	f.golden(t, "move.txt", f.run(t, "move", "tickets/0", "2", "--yes").ok(t))
	f.run(t, "move", "tickets/1", "1", "--yes", "-o", "json").ok(t)
	f.run(t, "move", "tickets/0", "1", "--yes").ok(t)
	got := get(t, f, "tickets", &v1alpha1.Topic{}).Annotations[v1alpha1.AnnotationReassign]
	if got != "0=1 1=1" {
		t.Errorf("annotation %q, want the moves of both partitions", got)
	}
	cluster = get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Brokers = 1
	if err := f.api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) testUser(t *testing.T) {
	f.create(t, &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: v1alpha1.LogUserSpec{Cluster: "main",
			Authentication: v1alpha1.UserAuthentication{Type: v1alpha1.UserScram}}})
	f.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "app-logcluster",
		Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
		Data: map[string][]byte{"password": []byte("hunter2"), "client.properties": []byte("a=b\n"),
			"librdkafka.conf": []byte("ssl.ca.location=/etc/heartwood/ca.crt\n")}})
	if got := f.run(t, "user", "config", "app").ok(t); got != "a=b\n" {
		t.Errorf("config: %q", got)
	}
	var printed map[string]string
	if err := json.Unmarshal([]byte(f.run(t, "user", "config", "app", "--format", "librdkafka", "-o",
		"json").ok(t)), &printed); err != nil || printed["user"] != "app" ||
		printed["format"] != "librdkafka" ||
		printed["content"] != "ssl.ca.location=/etc/heartwood/ca.crt\n" {
		t.Errorf("config as JSON: %v, error %v", printed, err)
	}
	dir := filepath.Join(t.TempDir(), "app")
	f.run(t, "user", "config", "app", "--directory", dir).ok(t)
	content, err := os.ReadFile(filepath.Join(dir, "librdkafka.conf"))
	if want := "ssl.ca.location=" + dir + "/ca.crt\n"; err != nil || string(content) != want {
		t.Errorf("librdkafka.conf: %q, error %v, want %q", content, err, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "password")); err != nil || info.Mode() != 0o600 {
		t.Errorf("password: %v, error %v", info, err)
	}
	f.run(t, "user", "config", "app", "--format", "go").fails(t, `"go" for --format`)
	f.golden(t, "rotate.txt", f.run(t, "user", "rotate", "app", "--yes").ok(t))
	if get(t, f, "app", &v1alpha1.LogUser{}).Annotations[v1alpha1.AnnotationRotate] == "" {
		t.Error("no annotation on the LogUser")
	}
}

func (f *fixture) testAcceptLoss(t *testing.T) {
	f.run(t, "accept-loss", "tickets/0").fails(t, "there is nothing to accept")
	change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
		topic.Status.Problems = []v1alpha1.PartitionProblem{
			{Partition: 0, Reason: "ReplicaLost", Message: "Broker 0 has an empty disk.",
				Consent: "dir1"},
			{Partition: 1, Reason: "LeaderOffline", Message: "The partition waits for brokers."},
		}
	})
	f.run(t, "accept-loss", "tickets/1").fails(t, "waits for no records that could be given up")
	r := f.run(t, "accept-loss", "tickets/0")
	r.fails(t, "give the name of the partition again with --name")
	if !strings.Contains(r.out, "Broker 0 has an empty disk.") ||
		!strings.Contains(r.out, "Last leader epoch: 3. Replicas: [0].") {
		t.Errorf("what is lost:\n%s", r.out)
	}
	if r := f.run(t, "accept-loss", "tickets/0", "--name", "tickets"); !errors.Is(r.err,
		errNotConfirmed) {
		t.Errorf("a wrong name: %v", r.err)
	}
	f.run(t, "accept-loss", "tickets/0", "--name", "tickets/0").ok(t)
	got := get(t, f, "tickets", &v1alpha1.Topic{}).AcceptedDataLoss()
	if len(got) != 1 || got[0] != "dir1" {
		t.Errorf("accepted %v", got)
	}
	f.run(t, "status").degraded(t)
}

// testSecured checks that the HTTP port of a secured LogCluster requires a ServiceAccount's token,
// and that reading and writing records requires a LogUser.
func (f *fixture) testSecured(t *testing.T) {
	cluster := get(t, f, "main", &v1alpha1.LogCluster{})
	cluster.Spec.Listeners = v1alpha1.Listeners{{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{},
		Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}}
	if err := f.api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	f.run(t, "top").fails(t, "name a ServiceAccount that may get logclusters/report")
	f.run(t, "top", "--service-account", "viewer").fails(t, "has no Secret main-ca-cert")
	f.run(t, "tail", "tickets").fails(t, "accepts these credentials: give --user")
	f.run(t, "tail", "tickets", "--user", "nobody").fails(t, "has no Secret nobody-logcluster")
	f.run(t, "tail", "tickets", "--user", "app").fails(t, "has no Secret main-ca-cert")
}

func (f *fixture) testTwoClusters(t *testing.T) {
	f.create(t, &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	f.run(t, "status").fails(t, "has the LogClusters main, other: choose one with --cluster")
	if out := f.run(t, "status", "--cluster", "other").degraded(t); !strings.Contains(out,
		"NoStatus") {
		t.Errorf("status of a cluster without an operator:\n%s", out)
	}
}
