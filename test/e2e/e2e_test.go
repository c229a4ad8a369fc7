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

// What config/samples and testdata hold: one LogCluster, and its Topics.
const (
	logCluster = "demo"
	topics     = 5
)

func TestHeartwoodOnKubernetes(t *testing.T) {
	image, clientImage := os.Getenv("IMAGE"), os.Getenv("CLIENT_IMAGE")
	if image == "" || clientImage == "" || os.Getenv("KUBECONFIG") == "" {
		t.Fatal("set KUBECONFIG, IMAGE and CLIENT_IMAGE: see test/e2e/doc.go")
	}
	w, err := newWorld("heartwood-e2e-"+strconv.FormatInt(time.Now().Unix(), 36), image,
		clientImage)
	if err != nil {
		t.Fatal(err)
	}
	w.install(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"samples become ready", w.samples},
		{"the chart is upgraded", w.upgraded},
		{"invalid manifests are refused, and say what to do", w.invalid},
		{"a client produces and consumes", w.produceAndConsume},
		{"the cleaner runs, and kubectl shows it", w.cleans},
		{"a deleted broker pod comes back and nothing is lost", w.brokerDeleted},
		{"brokers go under load, and nothing that was acknowledged goes", w.brokersGo},
		{"brokers are killed in turn", w.killedInTurn},
		{"nodes fail and come back", w.nodesFail},
		{"the API server goes and comes back", w.apiServerGoes},
		{"replicas move", w.replicasMove},
		{"brokers go for good, and come back", w.scales},
		{"replicas are spread over racks, and read nearby", w.racks},
		{"a consumer group goes on without its coordinator", w.groups},
		{"a deleted topic comes back with its records", w.topicDeleted},
		{"brokers of a thousand partitions go", w.thousand},
		{"a deleted LogCluster keeps its volumes, and comes back with its records",
			w.clusterDeleted},
	} {
		if !t.Run(step.name, step.run) {
			return // what follows builds on it
		}
	}
}

func (w *world) samples(t *testing.T) {
	w.kubectl(t, "apply", "-f", "config/samples", "-f", "test/e2e/testdata/ledger.yaml", "-f",
		"test/e2e/testdata/failover.yaml")
	w.waitReady(t, 1, topics)
	w.runClient(t, logCluster)
}

// Each message is that of a CEL rule, from the API server itself.
func (w *world) invalid(t *testing.T) {
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
			if message := w.refused(t, manifest); !strings.Contains(message, test.want) {
				t.Errorf("refused without %q:\n%s", test.want, message)
			}
		})
	}
}

func (w *world) produceAndConsume(t *testing.T) {
	for _, topic := range []string{"tickets", "ledger"} { // of config/samples and testdata
		w.mustAsk(t, "POST", "produce", "topic", topic, "keys", "1000", "rounds", "15",
			"deleteEvery", "5")
		if answer := w.checkKept(t, topic); answer.Keys != 1000 {
			t.Errorf("%s: %d keys were acknowledged", topic, answer.Keys)
		}
	}
}

func (w *world) cleans(t *testing.T) {
	until(t, "every record that is superseded may be gone", func(ctx context.Context) string {
		answer, err := w.ask(ctx, "GET", "check", url.Values{"topic": {"ledger"}})
		switch {
		case err != nil:
			return err.Error()
		case answer.Held > answer.Acknowledged/2:
			return fmt.Sprintf("of %d records %d are still there", answer.Acknowledged, answer.Held)
		}
		return ""
	})
	until(t, "the Topic's status tells of it", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := w.Get(ctx, client.ObjectKey{Name: "ledger"}, &topic); err != nil {
			return err.Error()
		}
		if c := topic.Status.Compaction; c == nil || c.LastCleaned == nil || c.Dirty == "" ||
			c.Phase == "" {
			return fmt.Sprintf("status.compaction is %+v", c)
		}
		return ""
	})
	table := strings.Split(w.kubectl(t, "get", "topics"), "\n")
	t.Logf("kubectl get topics:\n%s", strings.Join(table, "\n"))
	want := []string{"NAME", "CLUSTER", "PARTITIONS", "READY", "DIRTY", "RECLAIMABLE", "CLEANER",
		"AGE"}
	if got := strings.Fields(table[0]); !slices.Equal(got, want) {
		t.Errorf("columns are %v, want %v", got, want)
	}
	row := table[slices.IndexFunc(table,
		func(line string) bool { return strings.HasPrefix(line, "ledger ") })]
	if fields := strings.Fields(row); len(fields) < 7 || fields[1] != logCluster ||
		fields[3] != "True" || !strings.HasSuffix(fields[4], "%") {
		t.Errorf("the row of ledger is %q", row)
	}
	t.Logf("kubectl get logclusters,partitions:\n%s", w.kubectl(t, "get", "logclusters,partitions"))
}

func (w *world) brokerDeleted(t *testing.T) {
	var partition v1alpha1.Partition
	if err := w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PartitionName("ledger", 0)},
		&partition); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s-broker-%d", logCluster, partition.Status.Leader)
	var before corev1.Pod
	if err := w.Get(t.Context(), client.ObjectKey{Name: name}, &before); err != nil {
		t.Fatal(err)
	}
	w.mustAsk(t, "POST", "stream", "topic", "ledger", "keys", "1000")
	w.waitAcknowledged(t, "ledger", 1000)
	// Forced: the broker is killed, as by a node that fails.
	w.kubectl(t, "delete", "pod", name, "--grace-period=0", "--force")
	w.waitPod(t, name, &before)
	w.waitReady(t, 1, topics)
	// on all partitions, the ones of this broker included: their keys are in every round
	w.waitAcknowledged(t, "ledger", 3000)
	w.mustAsk(t, "POST", "stop", "topic", "ledger")
	w.checkKept(t, "ledger")
}

// waitAcknowledged waits until so many more records are acknowledged.
func (w *world) waitAcknowledged(t *testing.T, topic string, more int) {
	t.Helper()
	before := w.mustAsk(t, "GET", "stats", "topic", topic).Acknowledged
	until(t, fmt.Sprintf("%d more records are acknowledged", more),
		func(ctx context.Context) string {
			answer, err := w.ask(ctx, "GET", "stats", url.Values{"topic": {topic}})
			if err != nil {
				return err.Error()
			}
			if answer.Acknowledged < before+more {
				return fmt.Sprintf("%d of them are", answer.Acknowledged-before)
			}
			return ""
		})
}

// reclaimPolicy Retain, the default: deleting a Topic is undone by applying it again.
func (w *world) topicDeleted(t *testing.T) {
	topic := &v1alpha1.Topic{}
	topic.Name, topic.Namespace = "ledger", w.namespace
	w.kubectl(t, "delete", "topic", topic.Name, "--timeout=120s")
	w.waitGone(t, topic)
	w.kubectl(t, "apply", "-f", "test/e2e/testdata/ledger.yaml")
	w.waitReady(t, 1, topics)
	w.checkKept(t, "ledger")
	w.mustAsk(t, "POST", "reopen") // the topic has another id
	w.mustAsk(t, "POST", "produce", "topic", "ledger", "keys", "100", "rounds", "2")
	w.checkKept(t, "ledger")
}

func (w *world) clusterDeleted(t *testing.T) {
	before := w.volumes(t)
	if len(before) == 0 {
		t.Fatal("the brokers have no volumes")
	}
	w.kubectl(t, "delete", "logcluster", logCluster, "--timeout=180s")
	until(t, "the broker pods are gone", func(ctx context.Context) string {
		pods, err := w.pods(ctx, brokers)
		if err != nil || len(pods) > 0 {
			return fmt.Sprintf("%d pods, %v", len(pods), err)
		}
		return ""
	})
	if after := w.volumes(t); !slices.Equal(before, after) {
		t.Fatalf("volume claims were %v and are %v", before, after)
	}
	w.kubectl(t, "apply", "-f", "config/samples")
	w.waitReady(t, 1, topics)
	w.checkKept(t, "ledger")
	w.checkKept(t, "tickets")
}

// volumes are the uids of the brokers' volume claims, sorted.
func (w *world) volumes(t *testing.T) []types.UID {
	t.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := w.List(t.Context(), &claims); err != nil {
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
