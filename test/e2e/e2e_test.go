//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Name of the LogCluster, and number of Topics, in config/samples and testdata.
const (
	logCluster = "demo"
	topics     = 5
)

func TestHeartwoodOnKubernetes(t *testing.T) {
	image, clientImage := os.Getenv("IMAGE"), os.Getenv("CLIENT_IMAGE")
	if image == "" || clientImage == "" || os.Getenv("KUBECONFIG") == "" {
		t.Fatal("set KUBECONFIG, IMAGE and CLIENT_IMAGE: see test/e2e/doc.go")
	}
	e, err := newEnvironment("heartwood-e2e-"+strconv.FormatInt(time.Now().Unix(), 36), image,
		clientImage)
	if err != nil {
		t.Fatal(err)
	}
	e.skips.atEndOf(t)
	e.install(t)
	e.samples(t) // every step uses these Topics, so a step can also run alone
	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"the chart is upgraded", e.upgrade},
		{"the chart is installed under another release name", e.otherRelease},
		{"the packed chart is installed", e.packedChart},
		{"install.yaml is applied", e.installManifest},
		{"invalid manifests are rejected with the rule's message", e.invalid},
		{"a client produces and consumes", e.produceAndConsume},
		{"the cleaner runs, and kubectl shows it", e.compact},
		{"kubectl heartwood has the rights of its user", e.kubectlHeartwood},
		{"kubectl heartwood works while a broker is down", e.oneBrokerDown},
		{"kubectl heartwood operates a LogCluster", e.operate},
		{"a deleted broker pod is replaced without loss", e.brokerDeleted},
		{"brokers fail under load without loss of acknowledged records", e.brokersFail},
		{"brokers fail one after the other", e.successiveFailures},
		{"a broken image stops at one broker", e.brokenImage},
		{growStep, e.volumesGrow},
		{"volumes are replaced, and one of them fills", e.volumesReplaced},
		{"a claim is deleted, and its volume replaced after consent", e.volumeLost},
		{"the log of a partition is removed, and copied again", e.logLost},
		{"brokers are restarted while something else fails", e.rolls},
		{"partitions with one replica serve during a rolling update", e.lends},
		{"brokers run a later version and the first one again", e.laterVersion},
		{"brokers that are too old for their disks do not start", e.tooOld},
		{previousStep, e.previousRelease},
		{"nodes are drained in turn", e.drains},
		{"nodes fail and return", e.nodesFail},
		{"the network fails in part", e.networkFails},
		{"the API server fails and returns", e.apiServerFails},
		{"partitions are reassigned", e.reassign},
		{"the LogCluster is scaled down and up", e.scale},
		{"brokers are added, drained and removed", e.rebalance},
		{"replicas are spread across racks, and consumers read from their rack", e.racks},
		{"a consumer group survives the failure of its coordinator", e.groups},
		{"no change makes internal topics lose records", e.internalTopics},
		{"a topic is copied exactly once while brokers are deleted", e.transactions},
		{"a re-created Topic has its records", e.topicDeleted},
		{"retained records of a deleted Topic are shown and removed", e.retained},
		{"a node is deleted, and a volume on it replaced after consent", e.nodeDeleted},
		{"a secured LogCluster serves users outside the pod network", e.secured},
		{"the console shows what its users may see", e.console},
		{"a LogCluster is secured, and replaces its CAs, under load", e.securityChanges},
		{manyStep, e.manyPartitionsFailOver},
		{"a re-created LogCluster has its volumes and records",
			e.clusterDeleted},
		{"the commands of the pages for operators work", e.commandsOfPages},
	}
	var names []string
	for _, step := range steps {
		e.record(t, step.name, step.run)
		names = append(names, step.name)
	}
	e.writeFigures(t, names)
}

// samples applies the samples and starts the client.
func (e *environment) samples(t *testing.T) {
	t.Helper()
	e.kubectl(t, "apply", "-f", "config/samples", "-f", "test/e2e/testdata/ledger.yaml", "-f",
		"test/e2e/testdata/failover.yaml")
	e.waitReady(t, 1, topics)
	e.runClient(t, logCluster)
}

// invalid applies manifests that violate CEL rules. The API server must reject them with the rules'
// messages.
func (e *environment) invalid(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("testdata", "ledger.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, with, want string }{
		"level beyond the codec's range": {"level: 3", "level: 30",
			"the level of zstd must be -131072 to 22"},
		"level without a codec for it": {"type: zstd", "type: snappy",
			"only gzip, lz4 and zstd have levels"},
		"fewer partitions": {"partitions: 3", "partitions: 2",
			"partitions cannot shrink"},
		"another cluster": {"cluster: demo", "cluster: other",
			"cluster cannot be changed"},
		"minLag above maxLag": {
			"minDirtyPercent: 20", "{minLag: 2h, maxLag: 1h}",
			"minLag must not be longer than maxLag",
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := strings.Replace(string(content), test.old, test.with, 1)
			if manifest == string(content) {
				t.Fatalf("%q is not in the manifest", test.old)
			}
			if message := e.applyInvalid(t, manifest); !strings.Contains(message, test.want) {
				t.Errorf("rejected without %q:\n%s", test.want, message)
			}
		})
	}
}

func (e *environment) produceAndConsume(t *testing.T) {
	// These are the Topics in config/samples and in testdata.
	for _, topic := range []string{"tickets", "ledger"} {
		e.mustCall(t, "POST", "produce", "topic", topic, "keys", "1000", "rounds", "15",
			"deleteEvery", "5")
		if answer := e.checkCompacted(t, topic); answer.Keys != 1000 {
			t.Errorf("%s: %d keys were acknowledged", topic, answer.Keys)
		}
	}
}

func (e *environment) compact(t *testing.T) {
	e.mustCall(t, "POST", "produce", "topic", "ledger", "keys", "1000", "rounds", "15",
		"deleteEvery", "5")
	until(t, "superseded records removed", func(ctx context.Context) string {
		answer, err := e.call(ctx, "GET", "check", url.Values{"topic": {"ledger"}})
		switch {
		case err != nil:
			return err.Error()
		case answer.Held > answer.Acknowledged/2:
			return fmt.Sprintf("%d of %d records still exist", answer.Held, answer.Acknowledged)
		}
		return ""
	})
	until(t, "compaction in the Topic's status", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := e.Get(ctx, client.ObjectKey{Name: "ledger"}, &topic); err != nil {
			return err.Error()
		}
		if c := topic.Status.Compaction; c == nil || c.LastCleanTime == nil || c.DirtyPercent == nil ||
			c.Phase == "" {
			return fmt.Sprintf("status.compaction is %+v", c)
		}
		return ""
	})
	table := strings.Split(e.kubectl(t, "get", "topics"), "\n")
	t.Logf("kubectl get topics:\n%s", strings.Join(table, "\n"))
	want := []string{"NAME", "TOPIC", "CLUSTER", "PARTITIONS", "READY", "DIRTY", "RECLAIMABLE",
		"CLEANER", "AGE"}
	if got := strings.Fields(table[0]); !slices.Equal(got, want) {
		t.Errorf("columns are %v, want %v", got, want)
	}
	row := table[slices.IndexFunc(table,
		func(line string) bool { return strings.HasPrefix(line, "ledger ") })]
	if fields := strings.Fields(row); len(fields) < 8 || fields[2] != logCluster ||
		fields[4] != "True" || !strings.HasSuffix(fields[5], "%") {
		t.Errorf("row of ledger: %q", row)
	}
	t.Logf("kubectl get logclusters,partitionsets:\n%s",
		e.kubectl(t, "get", "logclusters,partitionsets"))
}

func (e *environment) brokerDeleted(t *testing.T) {
	name := fmt.Sprintf("%s-broker-%d", logCluster, e.partition(t, "ledger", 0).Leader)
	var before corev1.Pod
	if err := e.Get(t.Context(), client.ObjectKey{Name: name}, &before); err != nil {
		t.Fatal(err)
	}
	e.stream(t, "ledger", "keys", "1000")
	e.waitAcknowledged(t, "ledger", 1000)
	// With --force the broker is killed, as if its node had failed.
	e.kubectl(t, "delete", "pod", name, "--grace-period=0", "--force")
	e.waitPod(t, name, &before)
	e.waitReady(t, 1, topics)
	// 3,000 records are three rounds. Each round writes to all partitions, including this broker's
	// partitions.
	e.waitAcknowledged(t, "ledger", 3000)
	e.mustCall(t, "POST", "stop", "topic", "ledger")
	e.checkCompacted(t, "ledger")
}

// waitAcknowledged waits until more further records have been acknowledged.
func (e *environment) waitAcknowledged(t *testing.T, topic string, more int) {
	t.Helper()
	before := e.mustCall(t, "GET", "stats", "topic", topic).Acknowledged
	until(t, fmt.Sprintf("%d further records acknowledged", more),
		func(ctx context.Context) string {
			answer, err := e.call(ctx, "GET", "stats", url.Values{"topic": {topic}})
			if err != nil {
				return err.Error()
			}
			if answer.Acknowledged < before+more {
				return fmt.Sprintf("%d so far", answer.Acknowledged-before)
			}
			return ""
		})
}

// topicDeleted deletes a Topic with the default reclaimPolicy Retain, and applies it again. The
// records must still exist.
func (e *environment) topicDeleted(t *testing.T) {
	topic := &v1alpha1.Topic{}
	topic.Name, topic.Namespace = "ledger", e.namespace
	e.kubectl(t, "delete", "topic", topic.Name, "--timeout=120s")
	e.waitDeleted(t, topic)
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/ledger.yaml")
	e.waitReady(t, 1, topics)
	e.checkCompacted(t, "ledger")
	e.mustCall(t, "POST", "reopen") // needed because the topic has a new id
	e.mustCall(t, "POST", "produce", "topic", "ledger", "keys", "100", "rounds", "2")
	e.checkCompacted(t, "ledger")
}

func (e *environment) clusterDeleted(t *testing.T) {
	before := e.volumes(t)
	if len(before) == 0 {
		t.Fatal("the brokers have no volumes")
	}
	e.kubectl(t, "delete", "logcluster", logCluster, "--timeout=180s")
	until(t, "broker pods deleted", func(ctx context.Context) string {
		pods, err := e.pods(ctx, brokers)
		if err != nil || len(pods) > 0 {
			return fmt.Sprintf("%d pods, %v", len(pods), err)
		}
		return ""
	})
	if after := e.volumes(t); !slices.Equal(before, after) {
		t.Fatalf("volume claims were %v and are %v", before, after)
	}
	e.kubectl(t, "apply", "-f", "config/samples")
	e.waitReady(t, 1, topics)
	until(t, "the new bootstrap Service routed", func(ctx context.Context) string {
		if _, err := e.call(ctx, "GET", "check", url.Values{"topic": {"ledger"}}); err != nil {
			return err.Error()
		}
		return ""
	})
	e.checkCompacted(t, "ledger")
	e.checkCompacted(t, "tickets")
}

// volumes returns the sorted UIDs of the brokers' PersistentVolumeClaims.
func (e *environment) volumes(t *testing.T) []types.UID {
	t.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := e.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	var uids []types.UID
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp == nil {
			uids = append(uids, claims.Items[i].UID)
		}
	}
	slices.Sort(uids)
	return uids
}
