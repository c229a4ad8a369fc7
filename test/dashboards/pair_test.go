//go:build dashboards

package dashboards

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

// pairCluster describes a LogCluster in which broker 0 has all replicas of topic bulk. A run of
// moves copies some of them to broker 1, which takes minutes.
const pairCluster = `
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: pair}
spec:
  brokers: 2
  listeners: [{name: kafka, port: 9092}]
  topicDefaults: {replicas: 1}
  rebalance: {policy: Manual, rate: 64Ki}
  transactions: {maxTimeout: 1m, stateTopic: {partitions: 1, replicas: 2}}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: payments}
spec:
  cluster: pair
  partitions: 1
  replicas: 2
  minInSyncReplicas: 2
  initialReplicas: [{partition: 0, replicas: [0, 1]}]
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: bulk}
spec:
  cluster: pair
  partitions: 2
  initialReplicas: [{partition: 0, replicas: [0]}, {partition: 1, replicas: [0]}]
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: ledger}
spec:
  cluster: pair
  partitions: 1
  replicas: 2
  initialReplicas: [{partition: 0, replicas: [0, 1]}]
`

// disturbPair makes a broker crash several times and stay down. Meanwhile the broker receives
// replicas, and a transaction is open whose partition needs this broker. Then disturbPair also
// kills the other broker, which leaves all partitions without a leader, and restarts it with a
// partition to which it cannot write.
func (w *world) disturbPair(ctx context.Context, p *prometheus) {
	first, second := podName("pair", 0), podName("pair", 1)
	w.cluster("pair", `{"metadata":{"annotations":{"heartwood.dev/rebalance":"1"}}}`)
	w.moves("pair")
	w.crash(p, second, 4)
	p.until(time.Minute, "pair", "HeartwoodBrokerRestarting")
	producer := w.begin("pair", "payments", time.Minute)
	defer producer.Close()
	p.forget("HeartwoodRebalanceStuck") // no bytes are copied while the broker starts
	w.kill(second, true)
	ending, stop := context.WithTimeout(ctx, 10*time.Second)
	_ = producer.EndTransaction(ending, kgo.TryCommit)
	stop()
	p.until(2*time.Minute, "pair", "HeartwoodPartitionUnderMinISR",
		"HeartwoodTransactionMarkersPending", "HeartwoodRebalanceStuck")

	w.kill(first, true)
	p.until(2*time.Minute, "pair", "HeartwoodPartitionWithoutLeader")
	ledger := filepath.Join(w.dataDir("pair", 0), "ledger-0")
	w.prepared(first, fmt.Sprintf("mount --bind %q %[1]q\nmount -o remount,bind,ro %[1]q", ledger))
	w.kill(first, false)
	writing, stop := context.WithCancel(ctx)
	var writes sync.WaitGroup
	writes.Go(func() { w.write(writing, "pair", "ledger", 100, time.Second) })
	p.until(2*time.Minute, "pair", "HeartwoodPartitionOffline")
	stop()
	writes.Wait()
}

// moves waits until replicas of a cluster are being moved.
func (w *world) moves(cluster string) {
	w.t.Helper()
	await.For(w.t, func() string {
		c := &v1alpha1.LogCluster{}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster},
			c); err != nil {
			return err.Error()
		}
		if run := c.Status.Rebalance; run == nil || run.BytesDone == 0 {
			return fmt.Sprintf("no replica is being moved: %+v", run)
		}
		return ""
	})
}

// crash kills a broker several times. Each time, it waits until Prometheus has scraped the new
// process.
func (w *world) crash(p *prometheus, pod string, times int) {
	w.t.Helper()
	starts := fmt.Sprintf(`changes(process_start_time_seconds{pod=%q}[1h])`, pod)
	for range times {
		before := p.value(starts)
		w.kill(pod, false)
		await.For(w.t, func() string {
			if p.value(starts) > before {
				return ""
			}
			return pod + " was not restarted"
		})
	}
}
