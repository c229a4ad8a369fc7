package broker

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/hanging"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/test/kit/await"
)

// leaveOpen writes a transactional batch to partition 0 of tickets while the broker is stopped. The
// log then looks like one of another origin: the transaction is open, and its record is a day old.
func (c *cluster) leaveOpen(p transaction.Producer) {
	c.t.Helper()
	store, err := logstore.Open(logstore.Options{FS: c.fsys, Dir: c.options().DataDir})
	if err != nil {
		c.t.Fatal(err)
	}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(record.Identity{ProducerID: p.ID, ProducerEpoch: p.Epoch, LeaderEpoch: -1,
		Transactional: true})
	yesterday := time.Now().Add(-24 * time.Hour)
	builder.Add(&record.Record{Timestamp: yesterday.UnixMilli(),
		Key: []byte("k"), Value: []byte("open")})
	batch, err := builder.Build(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	log := store.Log(logstore.PartitionID{Topic: "tickets"})
	if _, err := log.AppendVerified(batch, logstore.Verified{Transaction: true},
		yesterday); err != nil {
		c.t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) restartWithOpen(p transaction.Producer) (handler http.Handler) {
	c.t.Helper()
	if err := c.stop(); err != nil {
		c.t.Fatal(err)
	}
	c.leaveOpen(p)
	c.start()
	handler = c.http()
	await.Until(c.t, "the coordinator is loaded", func() bool {
		return get(c.t, handler, "GET", "/api/v1/transactions").Code == http.StatusOK
	})
	return handler
}

func (c *cluster) http() http.Handler {
	return httpport.New(HTTPOf(prometheus.NewRegistry(), c.Broker.Ready,
		func() Brokers { return Brokers{c.Broker} }))
}

// hangs runs a check for hanging transactions at time now, and returns the open transactions in
// tickets-0.
func (c *cluster) hangs(handler http.Handler, now time.Time) []report.OpenTransaction {
	c.t.Helper()
	c.hanging.Check(c.t.Context(), now)
	return transactionsOf(c.t, handler, "").Open
}

// TestTransactionOfAnUnknownProducerIsAborted checks that the broker aborts the transaction only
// after it has observed the transaction for five minutes, although its record is a day old.
func TestTransactionOfAnUnknownProducerIsAborted(t *testing.T) {
	c := newCluster(t)
	c.start()
	client := begin(t, c, "known") // creates __transaction_state
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	handler := c.restartWithOpen(transaction.Producer{ID: 4242, Epoch: 7})
	now := time.Now()
	for _, elapsed := range []time.Duration{0, hanging.ObservedFor - time.Second} {
		if open := c.hangs(handler, now.Add(elapsed)); !containsProducer(open, 4242) {
			t.Fatalf("%s after the first check: %+v", elapsed, open)
		}
	}
	if open := c.hangs(handler, now.Add(hanging.ObservedFor)); containsProducer(open, 4242) {
		t.Errorf("not aborted: %+v", open)
	}
	log, err := c.replicas.Leader(replica.PartitionID{Topic: "tickets"}, -1)
	if err != nil || log.LastStable() != log.LogEnd() {
		t.Errorf("last stable offset %d of %d, %v", log.LastStable(), log.LogEnd(), err)
	}
}

func containsProducer(open []report.OpenTransaction, id int64) bool {
	for i := range open {
		if open[i].ProducerID == id {
			return true
		}
	}
	return false
}

// TestHangingTransactionOfAKnownProducerIsReported checks that the broker reports a hanging
// transaction, but does not abort it, if a coordinator knows the producer and its last transaction
// has ended. Only an administrator may abort it.
func TestHangingTransactionOfAKnownProducerIsReported(t *testing.T) {
	c := newCluster(t)
	c.start()
	client := begin(t, c, "pay")
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	var id report.TransactionalID
	before := c.http()
	await.Until(t, "the transaction is complete", func() bool {
		id = transactionsOf(t, before, "").TransactionalIDs[0]
		return id.State == "CompleteCommit"
	})
	client.Close()
	handler := c.restartWithOpen(transaction.Producer{ID: id.ProducerID, Epoch: id.Epoch + 1})
	now := time.Now()
	for _, reported := range []bool{false, true} {
		if open := c.hangs(handler, now); len(open) != 1 || open[0].Hanging != reported {
			t.Fatalf("got %+v, want hanging %t", open, reported)
		}
		now = now.Add(hanging.ObservedFor)
	}
	if got := c.metric("heartwood_log_hanging_transactions", "tickets"); got != 1 {
		t.Errorf("the metric is %v, want 1", got)
	}
	open := transactionsOf(t, handler, "").Open[0]
	path := "/api/v1/topics/tickets/abort-transaction?partition=0&firstOffset=" +
		strconv.FormatInt(open.FirstOffset, 10)
	if r := get(t, handler, "POST", path); r.Code != http.StatusOK {
		t.Fatalf("abort: response %d %s", r.Code, r.Body)
	}
	if open := c.hangs(handler, now); len(open) != 0 {
		t.Errorf("after the abort: %+v", open)
	}
}

// metric returns the sum of a gauge over the topic's partitions.
func (c *cluster) metric(name, topic string) (sum float64) {
	c.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == name && label.GetName() == "topic" &&
					label.GetValue() == topic {
					sum += m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}
