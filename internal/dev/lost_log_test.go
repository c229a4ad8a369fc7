package dev

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
)

// produceOrders produces n records of one kilobyte to topic orders, with acks=all.
func (r *running) produceOrders(n int) {
	r.t.Helper()
	client, random := r.client(), rand.New(rand.NewPCG(seed.New(r.t), 1))
	for i := range n {
		record := &kgo.Record{Topic: "orders", Key: fmt.Append(nil, i), Value: make([]byte, 1000)}
		for index := range record.Value { // random bytes cannot be compressed
			record.Value[index] = byte(random.Uint32())
		}
		if err := client.ProduceSync(r.t.Context(), record).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// wantRecords reads topic orders from its start, and fails the test unless it contains n records.
func (r *running) wantRecords(n int) {
	r.t.Helper()
	client, err := kgo.NewClient(append(lasting(r.ready["bootstrap"]),
		kgo.ConsumeTopics("orders"))...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	for got := 0; got < n; {
		fetched := client.PollFetches(r.t.Context())
		if err := fetched.Err(); err != nil {
			r.t.Fatal(err)
		}
		got += fetched.NumRecords()
	}
}

// awaitInSync waits until topic orders has the given number of in-sync replicas.
func (r *running) awaitInSync(replicas int) {
	r.t.Helper()
	admin := r.admin()
	await.Until(r.t, "all replicas are in sync", func() bool {
		details, err := admin.ListTopics(r.t.Context(), "orders")
		noError(r.t, err)
		return len(details["orders"].Partitions[0].ISR) == replicas
	})
}

// ordersDirectory returns the directory of topic orders on a broker.
func ordersDirectory(opts Options, broker int) string {
	return filepath.Join(opts.DataDir, fmt.Sprintf("broker-%d", broker), "orders-0")
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLostLogIsCopiedFromAnotherReplica: the preferred leader loses its log while the cluster is
// stopped. No record may be lost, and the log must be complete again afterwards.
func TestLostLogIsCopiedFromAnotherReplica(t *testing.T) {
	opts := options(t, logCluster("brokers: 3"),
		topic("orders", "partitions: 1, replicas: 3, minInSyncReplicas: 2, segment: {size: 16Ki}"))
	r, records := start(t, opts), 50
	r.produceOrders(records)
	r.stop()
	older := filepath.Join(t.TempDir(), "older")
	for broker := range 3 {
		noError(t, os.CopyFS(fmt.Sprint(older, broker), os.DirFS(ordersDirectory(opts, broker))))
	}
	segments := func(dir string) []string {
		all, err := filepath.Glob(filepath.Join(dir, "*.log"))
		noError(t, err)
		return all
	}
	for _, damage := range []func(broker int, dir string){
		func(_ int, dir string) { noError(t, os.RemoveAll(dir)) },
		func(broker int, dir string) {
			noError(t, os.RemoveAll(dir))
			noError(t, os.CopyFS(dir, os.DirFS(fmt.Sprint(older, broker))))
		},
		func(_ int, dir string) { noError(t, os.Remove(segments(dir)[1])) },
		func(_ int, dir string) { noError(t, os.Remove(segments(dir)[0])) },
		func(_ int, dir string) {
			all := segments(dir)
			last := all[len(all)-1]
			info, err := os.Stat(last)
			noError(t, err)
			noError(t, os.Truncate(last, info.Size()-100))
		},
	} {
		r = start(t, opts)
		r.produceOrders(20)
		records += 20
		details, err := r.admin().ListTopics(t.Context(), "orders")
		noError(t, err)
		leader := int(details["orders"].Partitions[0].Replicas[0])
		r.awaitInSync(3)
		r.stop()
		damage(leader, ordersDirectory(opts, leader))
		r = start(t, opts)
		r.log.await("log has lost records that were on the disk")
		r.wantRecords(records)
		r.log.await("discarding log that has lost records")
		r.awaitInSync(3)
		r.stop()
	}
}

// TestLostLogOfTheOnlyReplica: the only replica of a partition loses its log. The partition must
// not start again at offset 0 before a user has accepted the loss. The cluster starts without the
// partition, and prints the reason and the remedy.
func TestLostLogOfTheOnlyReplica(t *testing.T) {
	opts := options(t, topic("orders", "partitions: 1, replicas: 1"),
		topic("other", "partitions: 1, replicas: 1"))
	r := start(t, opts)
	r.produceOrders(10)
	r.stop()
	noError(t, os.RemoveAll(ordersDirectory(opts, 0)))
	r = start(t, opts)
	if all := strings.Join(r.topics, "\n"); !strings.Contains(all,
		"offline orders-0: broker 0 has lost its records") ||
		!strings.Contains(all, "--accept-data-loss") || strings.Contains(all, "offline other") {
		t.Errorf("output before the ready line:\n%s", all)
	}
	if err := r.client().ProduceSync(t.Context(), &kgo.Record{Topic: "other"}).FirstErr(); err != nil {
		t.Error(err)
	}
	if _, answer := r.get("/api/v1/placement?topic=orders"); !strings.Contains(answer,
		`"reason":"ReplicaLost"`) {
		t.Errorf("placement: %s", answer)
	}
	r.stop()
	opts.AcceptDataLoss = true
	r = start(t, opts)
	for _, text := range []string{"the directory is missing; its log ended at 10 or later",
		"leading without records that the log has lost"} {
		if !strings.Contains(r.log.String(), text) {
			t.Errorf("the log lacks %q:\n%s", text, r.log)
		}
	}
	r.produceOrders(5)
	r.wantRecords(5)
}
