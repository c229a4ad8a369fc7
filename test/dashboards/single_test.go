//go:build dashboards

package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

// singleDescriptors is the limit of file descriptors for the broker of cluster single.
const singleDescriptors = 256

// restoredTimeout is the timeout of the transaction in the log that will be restored. After this
// time, the transaction's coordinator aborts it.
const restoredTimeout = 5 * time.Second

// singleCluster describes a LogCluster whose cleaner does not work yet.
const singleCluster = `
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: single}
spec:
  brokers: 1
  listeners: [{name: kafka, port: 9092}]
  cleaner: {workers: 0, memory: 1Mi}
  topicDefaults: {replicas: 1}
  transactions: {maxTimeout: 5s, stateTopic: {partitions: 1}}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: restored}
spec: {cluster: single, partitions: 1}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: damaged}
spec:
  cluster: single
  partitions: 1
  cleanupPolicy: Compact
  segment: {size: 1Mi}
  compaction: {minDirtyPercent: 1}
`

// restore replaces a partition's log by an earlier copy, as when a backup is restored. The copy
// contains an open transaction. The transaction's coordinator has ended it in the meantime, so it
// will never be ended in the restored log.
func (w *world) restore() {
	pod, log := podName("single", 0), filepath.Join(w.dataDir("single", 0), "restored-0")
	backup := filepath.Join(w.dir, "backup")
	w.begin("single", "restored", restoredTimeout).Close()
	w.kill(pod, true)
	if err := os.CopyFS(backup, os.DirFS(log)); err != nil {
		w.t.Fatal(err)
	}
	w.kill(pod, false)
	await.For(w.t, func() string { return w.unfinished("restored") })
	w.kill(pod, true)
	if err := os.RemoveAll(log); err != nil {
		w.t.Fatal(err)
	}
	if err := os.CopyFS(log, os.DirFS(backup)); err != nil {
		w.t.Fatal(err)
	}
	w.kill(pod, false)
	w.ready("single", 2)
}

// unfinished returns the state of a transactional id if its transaction has not ended yet.
func (w *world) unfinished(id string) string {
	response, err := http.Get("http://" + w.address("single", 0) + ":9644/api/v1/transactions")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	var all report.Transactions
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil {
		return err.Error()
	}
	for _, one := range all.TransactionalIDs {
		if one.TransactionalID == id && one.State == "CompleteAbort" {
			return ""
		}
	}
	return fmt.Sprintf("no transaction of %s was aborted: %+v", id, all.TransactionalIDs)
}

// disturbSingle damages a log, makes the cleaner wait for itself, and opens many connections.
func (w *world) disturbSingle(ctx context.Context, p *prometheus) {
	w.damage(p)
	w.stall(p)
	w.connect(ctx, p)
}

// damage changes bytes in a segment that the cleaner will rewrite.
func (w *world) damage(p *prometheus) {
	w.cluster("single", `{"spec":{"scrub":{"interval":"Never"}}}`)
	// Half of the keys are used only once. So each segment has records that the cleaner keeps.
	w.records("single", "damaged", 0, 3000, 1000, func(i int) []byte {
		return fmt.Appendf(nil, "%d", i*(i%2))
	})
	segment := filepath.Join(w.dataDir("single", 0), "damaged-0", "00000000000000000000.log")
	file, err := os.OpenFile(segment, os.O_WRONLY, 0)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer file.Close()
	if _, err := file.WriteAt(bytes.Repeat([]byte{0xaa}, 4096), 512<<10); err != nil {
		w.t.Error(err)
	}
	w.cluster("single", `{"spec":{"cleaner":{"workers":1}}}`)
	p.until(time.Minute, "single", "HeartwoodPartitionQuarantined")
	// Turning on the scrub begins a round.
	w.cluster("single", `{"spec":{"scrub":{"interval":"168h"}}}`)
	p.until(time.Minute, "single", "HeartwoodDamageAtRest")
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "damaged",
		Namespace: w.namespace}}
	if err := w.api.Delete(w.t.Context(), topic); err != nil {
		w.t.Error(err)
	}
}

// stallTopics describes two topics. The cleaner builds the key sidecar of topic first in the
// background. The partitions of topic second must be cleaned and have no sidecars.
const stallTopics = `
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: first}
spec:
  cluster: single
  partitions: 1
  cleanupPolicy: Compact
  segment: {size: 4Mi}
  compaction: {minDirtyPercent: 100}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: second}
spec:
  cluster: single
  partitions: 8
  cleanupPolicy: Compact
  segment: {size: 1Mi}
  compaction: {minDirtyPercent: 1, maxLag: 1s}
`

// stall gives the cleaner so little I/O that it takes minutes to build a key sidecar. Passes
// release their worker slots while they wait for their logs' sidecars. But they keep the cleaner's
// memory, so other logs wait for memory.
func (w *world) stall(p *prometheus) {
	w.cluster("single", `{"spec":{"cleaner":{"ioRate":"1Ki"}}}`)
	w.apply(stallTopics)
	unique := func(i int) []byte { return fmt.Appendf(nil, "%d", i) }
	w.records("single", "first", 0, 30_000, 200, unique)
	await.For(w.t, func() string {
		if p.value(`heartwood_cleaner_memory_bytes{logcluster="single"}`) > 0 {
			return ""
		}
		return "no key sidecar is being built"
	})
	for partition := range int32(8) {
		w.records("single", "second", partition, 12_000, 200, unique)
	}
	p.until(2*time.Minute, "single", "HeartwoodCleanerStalled")
}

// wideTopic describes a topic in which each partition needs a file descriptor while records are
// appended to it.
const wideTopic = `
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: wide}
spec: {cluster: single, partitions: 90, cleanupPolicy: Delete}
`

// connect writes to many partitions, and connects clients until the broker has few file descriptors
// left. Enough descriptors remain for Prometheus, because clients get only half of them.
func (w *world) connect(ctx context.Context, p *prometheus) {
	w.apply(wideTopic)
	ctx, stop := context.WithCancel(ctx)
	var writes sync.WaitGroup
	writes.Go(func() { w.spread(ctx, "wide", 90) })
	defer writes.Wait()
	defer stop()
	var clients []*kgo.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	few := "HeartwoodFileDescriptorsLow"
	for len(clients) < singleDescriptors && !p.fired(few, "single") {
		c := w.client("single")
		clients = append(clients, c)
		attempt, stop := context.WithTimeout(ctx, time.Second)
		_ = c.Ping(attempt) // when half of the descriptors are used, the broker refuses connections
		stop()
		if len(clients) > 60 {
			pause(ctx, scrapeInterval)
		}
	}
	p.until(time.Minute, "single", few)
}
