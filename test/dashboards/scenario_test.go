//go:build dashboards

package dashboards

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mainCluster has a slow cleaner, so that passes last, and a listener with users.
const mainCluster = `
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: main}
spec:
  brokers: 3
  listeners:
    - {name: kafka, port: 9092}
    - {name: users, port: 9093, tls: {}, authentication: [{type: ScramSha512}]}
  authorization: {type: None}
  cleaner: {workers: 1, ioRate: 512Ki}
  topicDefaults: {replicas: 3, minInSyncReplicas: 2}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: slow}
spec:
  cluster: main
  authentication: {type: Scram}
  quotas: {produceBytes: 1Ki}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec:
  cluster: main
  partitions: 3
  cleanupPolicy: Compact
  segment: {size: 1Mi}
  compaction: {minDirtyPercent: 10, maxLag: 10s}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: events}
spec: {cluster: main, partitions: 3, cleanupPolicy: Delete}
`

// client connects to the plain listener of a cluster. The DNS names of pods exist for brokers only,
// so the client resolves them itself.
func (w *world) client(cluster string, options ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.address(cluster, 0) + ":9092"), kgo.Dialer(w.dialer(cluster, false)),
		kgo.DisableClientMetrics(), kgo.MetadataMinAge(250 * time.Millisecond),
	}, options...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// dialer returns a function that connects to the pods of a cluster by their DNS names.
func (w *world) dialer(cluster string,
	secured bool) func(ctx context.Context, network, host string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		for broker := range 3 {
			if strings.HasPrefix(host, podName(cluster, broker)+".") {
				host = w.address(cluster, broker)
			}
		}
		dialer := &net.Dialer{Timeout: 5 * time.Second}
		if !secured {
			return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
		}
		//nolint:gosec // the test is about metrics; other tests verify certificates
		return (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{InsecureSkipVerify: true}}).
			DialContext(ctx, network, net.JoinHostPort(host, port))
	}
}

// load runs clients of all kinds against cluster main until ctx ends.
func (w *world) load(ctx context.Context) *sync.WaitGroup {
	var clients sync.WaitGroup
	clients.Go(func() { w.produce(ctx, "tickets", 250) })
	clients.Go(func() { w.produce(ctx, "events", 50) })
	for range 2 {
		clients.Go(func() { w.consume(ctx) })
	}
	clients.Go(func() { w.transactions(ctx) })
	clients.Go(func() { w.unknownMembers(ctx) })
	password := w.secret("slow-logcluster", "password")
	clients.Go(func() { w.throttled(ctx, password) })
	return &clients
}

// produce updates 500 keys of a topic.
func (w *world) produce(ctx context.Context, topic string, rate int) {
	c := w.client("main", kgo.DefaultProduceTopic(topic))
	defer c.Close()
	value := make([]byte, 1000)
	for i := 0; ctx.Err() == nil; i++ {
		record := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", i%500), Value: value}
		c.TryProduce(ctx, record, func(*kgo.Record, error) {})
		pause(ctx, time.Second/time.Duration(rate))
	}
}

// consume is one member of a group.
func (w *world) consume(ctx context.Context) {
	c := w.client("main", kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("tickets", "events"),
		kgo.AutoCommitInterval(time.Second))
	defer c.Close()
	for ctx.Err() == nil {
		c.PollFetches(ctx)
	}
}

// transactions commits and aborts transactions in turn, and holds some open for seconds.
func (w *world) transactions(ctx context.Context) {
	c := w.client("main", kgo.TransactionalID("payments"), kgo.DefaultProduceTopic("events"),
		kgo.TransactionTimeout(30*time.Second))
	defer c.Close()
	for i := 0; ctx.Err() == nil; i++ {
		if err := c.BeginTransaction(); err != nil {
			pause(ctx, time.Second)
			continue
		}
		err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("payment")}).FirstErr()
		if i%5 == 0 {
			pause(ctx, 4*time.Second)
		}
		_ = c.EndTransaction(ctx, kgo.TransactionEndTry(err == nil && i%3 > 0))
		pause(ctx, 200*time.Millisecond)
	}
}

// unknownMembers sends heartbeats of a member that the group does not have.
func (w *world) unknownMembers(ctx context.Context) {
	c := w.client("main")
	defer c.Close()
	for ctx.Err() == nil {
		request := kmsg.NewPtrHeartbeatRequest()
		request.Group, request.MemberID = "readers", "unknown"
		_, _ = request.RequestWith(ctx, c)
		pause(ctx, time.Second)
	}
}

// failedLogins connects with a wrong password.
func (w *world) failedLogins(ctx context.Context) {
	for ctx.Err() == nil {
		c := w.secured("unknown", "wrong")
		attempt, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		_ = c.Ping(attempt)
		stop()
		c.Close()
	}
}

// secured connects to the listener with users.
func (w *world) secured(user, password string, options ...kgo.Opt) *kgo.Client {
	return w.client("main", append([]kgo.Opt{kgo.SeedBrokers(w.address("main", 0) + ":9093"),
		kgo.Dialer(w.dialer("main", true)), kgo.SASL(scram.Auth{User: user, Pass: password}.
			AsSha512Mechanism())}, options...)...)
}

// throttled produces more than the quota of its user allows.
func (w *world) throttled(ctx context.Context, password string) {
	c := w.secured("slow", password, kgo.DefaultProduceTopic("events"))
	defer c.Close()
	for ctx.Err() == nil {
		_ = c.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 2000)})
		pause(ctx, 500*time.Millisecond)
	}
}

// disturb makes the states of cluster main that a healthy cluster does not have.
func (w *world) disturb(ctx context.Context, p *prometheus) {
	// A cleaner without workers: logs wait, and become overdue.
	w.cluster("main", `{"spec":{"cleaner":{"workers":0}}}`)
	p.until(2*time.Minute, "HeartwoodCleanerOverdue")
	w.cluster("main", `{"spec":{"cleaner":{"workers":1}}}`)
	// A broker that is killed and stays away.
	w.kill(podName("main", 2), true)
	p.until(time.Minute, "HeartwoodPartitionUnderReplicated")
	w.kill(podName("main", 2), false)
	w.ready("main", 2)
	// The API server is away.
	w.link.setCut(true)
	p.until(2*time.Minute, "HeartwoodMetadataUnreachable", "HeartwoodReconcileFailing")
	w.link.setCut(false)
	w.ready("main", 2)
	pause(ctx, 10*time.Second)
}

// TestDashboardsAndAlerts runs the scenario, and then checks everything that Prometheus has seen.
func TestDashboardsAndAlerts(t *testing.T) {
	require(t)
	w := newWorld(t, "main")
	rules, alerts := shortRules(t)
	start := time.Now()
	w.apply(mainCluster)
	w.ready("main", 2)
	t.Logf("main is ready after %s", time.Since(start).Round(time.Second))
	p := w.startPrometheus(rules, 3, map[string]bool{"main": true})
	pause(t.Context(), 5*scrapeInterval) // until then the operator's metrics are absent
	begin := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	clients := w.load(ctx)
	pause(ctx, 20*time.Second)
	healthy := span{begin, time.Now()}
	clients.Go(func() { w.failedLogins(ctx) })
	var faults sync.WaitGroup
	faults.Go(func() { w.expiring(p) })
	w.disturb(ctx, p)
	t.Logf("main was disturbed after %s", time.Since(begin).Round(time.Second))
	faults.Wait()
	stop()
	clients.Wait()
	seen := span{begin, time.Now()}
	p.forget("HeartwoodOperatorAbsent")
	w.operator.Stop(t, syscall.SIGTERM)
	p.until(time.Minute, "HeartwoodOperatorAbsent")
	for _, name := range alerts {
		if !p.fired(name) && !slices.Contains(unreached, name) {
			t.Errorf("%s has not reached Alertmanager", name)
		}
	}
	checkHealthy(t, p, healthy)
	checkBoards(t, p, w.namespace, seen)
}
