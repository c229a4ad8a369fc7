//go:build dashboards

package dashboards

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mainCluster describes a LogCluster with a slow cleaner, which makes passes last, and with a
// listener for users.
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
  quotas: {produceRate: 1Ki}
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

// client connects to a cluster's plain listener. The DNS names of pods exist only for brokers, so
// the client resolves them itself.
func (w *world) client(cluster string, options ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.address(cluster, 0) + ":9092"), kgo.Dialer(w.dialer(cluster, false, "")),
		kgo.DisableClientMetrics(), kgo.MetadataMinAge(250 * time.Millisecond),
	}, options...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// dialer returns a function that connects to a cluster's pods by their DNS names. It connects from
// the local address from; "" means any address.
func (w *world) dialer(cluster string, secured bool,
	from string) func(ctx context.Context, network, host string) (net.Conn, error) {
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
		dialer := &net.Dialer{Timeout: 5 * time.Second,
			LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
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

// transactions commits and aborts transactions in turn, and holds some open for several seconds.
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

// unknownMembers sends heartbeats for a member that the group does not have.
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

// failedLogins connects with a wrong password. It uses another address than the other clients,
// because brokers refuse connections from an address after several failures.
func (w *world) failedLogins(ctx context.Context) {
	for ctx.Err() == nil {
		c := w.secured("unknown", "wrong", kgo.RequestRetries(0),
			kgo.Dialer(w.dialer("main", true, "127.0.0.2")))
		attempt, stop := context.WithTimeout(ctx, 3*time.Second)
		_ = c.Ping(attempt)
		stop()
		c.Close()
		pause(ctx, time.Second)
	}
}

// secured connects to the listener with users.
func (w *world) secured(user, password string, options ...kgo.Opt) *kgo.Client {
	return w.client("main", append([]kgo.Opt{kgo.SeedBrokers(w.address("main", 0) + ":9093"),
		kgo.Dialer(w.dialer("main", true, "")), kgo.SASL(scram.Auth{User: user, Pass: password}.
			AsSha512Mechanism())}, options...)...)
}

// throttled produces more than its user's quota allows.
func (w *world) throttled(ctx context.Context, password string) {
	c := w.secured("slow", password, kgo.DefaultProduceTopic("events"))
	defer c.Close()
	for ctx.Err() == nil {
		_ = c.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 2000)})
		pause(ctx, 500*time.Millisecond)
	}
}

// disturb puts cluster main into each of the unhealthy states that the dashboards must show.
func (w *world) disturb(p *prometheus) {
	p.until(time.Minute, "main", "HeartwoodAuthenticationFailing")
	// Disable the cleaner's workers: logs wait, and become overdue.
	w.cluster("main", `{"spec":{"cleaner":{"workers":0}}}`)
	p.until(2*time.Minute, "main", "HeartwoodCleanerOverdue")
	w.cluster("main", `{"spec":{"cleaner":{"workers":1}}}`)
	// Kill a broker, which then stays down.
	w.kill(podName("main", 2), true)
	p.until(time.Minute, "main", "HeartwoodPartitionUnderReplicated")
	w.kill(podName("main", 2), false)
	w.ready("main", 2)
}

// disconnect makes the API server unreachable for a limited time.
func (w *world) disconnect(ctx context.Context, p *prometheus) {
	w.cluster("main", `{"spec":{"cleaner":{"workers":2}}}`) // last reconciled state
	pause(ctx, 5*scrapeInterval)
	p.forget("HeartwoodReconcileFailing")
	w.link.setCut(true)
	p.until(3*time.Minute, "main", "HeartwoodMetadataUnreachable", "HeartwoodReconcileFailing")
	w.link.setCut(false)
	w.ready("main", 2)
	pause(ctx, 10*time.Second)
}

// start creates the clusters, and waits until they work.
func (w *world) start() {
	began := time.Now()
	w.prepared(podName("single", 0), fmt.Sprintf("ulimit -n %d", singleDescriptors))
	w.prepared(podName("full", 0), smallVolume(w.dataDir("full", 0)))
	for _, cluster := range []string{singleCluster, mainCluster, pairCluster, fullCluster} {
		w.apply(strings.TrimSpace(cluster))
	}
	w.ready("single", 2)
	w.restore()
	w.ready("main", 2)
	w.ready("pair", 3)
	w.ready("full", 1)
	for partition := range int32(2) {
		w.records("pair", "bulk", partition, 120, 100_000, func(int) []byte { return nil })
	}
	w.t.Logf("all clusters are ready after %s", time.Since(began).Round(time.Second))
}

// TestDashboardsAndAlerts runs the scenario, and then checks everything that Prometheus has
// observed.
func TestDashboardsAndAlerts(t *testing.T) {
	require(t)
	w := newWorld(t, pods{"main", 3, true}, pods{"single", 1, false}, pods{"pair", 2, false},
		pods{"full", 1, false})
	rules, alerts := shortRules(t)
	w.start()
	p := w.startPrometheus(rules)
	pause(t.Context(), 5*scrapeInterval) // the operator's metrics are absent until then
	begin := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	clients := w.load(ctx)
	pause(ctx, 20*time.Second)
	healthy := span{begin, time.Now()}
	clients.Go(func() { w.failedLogins(ctx) })
	var faults sync.WaitGroup
	for name, disturb := range map[string]func(){
		"expiring": func() { w.expiring(p) }, "invalid": func() { w.invalid(p) },
		"main": func() { w.disturb(p) }, "single": func() { w.disturbSingle(ctx, p) },
		"pair": func() { w.disturbPair(ctx, p) }, "full": func() { w.disturbFull(ctx, p) },
	} {
		faults.Go(func() {
			disturb()
			t.Logf("after %s cluster %s was disturbed", p.elapsed(), name)
		})
	}
	faults.Wait()
	// A transaction is late after timeoutMax and five minutes. A broker reports a transaction as
	// hanging only after it has observed it as open for five minutes in one leader epoch. This must
	// not follow an outage of the API server, which can cause an election.
	p.until(8*time.Minute, "single", "HeartwoodTransactionLate", "HeartwoodTransactionHanging")
	w.disconnect(ctx, p)
	seen := span{begin, time.Now()}
	stop()
	clients.Wait()
	p.forget("HeartwoodOperatorAbsent")
	w.operator.Stop(t, syscall.SIGTERM)
	p.until(time.Minute, "", "HeartwoodOperatorAbsent")
	for _, name := range alerts {
		if !p.raised[name] {
			t.Errorf("no state of the scenario raises %s", name)
		}
	}
	checkHealthy(t, p, healthy)
	checkBoards(t, p, w.namespace, seen)
}
