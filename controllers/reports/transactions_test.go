package reports

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// brokersOf responds to a Collector's requests as the brokers of a cluster do. Broker 0 leads a
// partition that a transaction blocks, and broker 1 coordinates the transaction.
type brokersOf struct {
	reason   string
	mu       sync.Mutex // guards requests
	requests []string
}

func (b *brokersOf) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.requests = append(b.requests, r.URL.Path)
	b.mu.Unlock()
	zero := strings.Contains(r.URL.Host, "-0.")
	var body any = report.Partitions{}
	switch {
	case r.URL.Path == "/api/v1/partitions" && zero:
		body = report.Partitions{Partitions: []report.Partition{{Topic: "orders", Leader: true,
			OldestTransaction: &report.Transaction{ProducerID: 7},
			Compaction:        &report.Compaction{Reason: b.reason}}}}
	case r.URL.Path == "/api/v1/transactions" && !zero:
		body = report.Transactions{TransactionalIDs: []report.TransactionalID{{ProducerID: 7,
			TransactionalID: "payments-7", State: "Ongoing",
			Partitions: []report.TopicPartition{{Topic: "orders"}}}}}
	}
	content, err := json.Marshal(body)
	return &http.Response{StatusCode: http.StatusOK,
		Body: io.NopCloser(bytes.NewReader(content))}, err
}

// TestBlockingTransactionIsIdentified checks that the brokers are asked for the transactional id
// only if a transaction blocks the cleaner.
func TestBlockingTransactionIsIdentified(t *testing.T) {
	cluster := &v1alpha1.LogCluster{}
	cluster.Name, cluster.Namespace, cluster.Spec.Brokers = "demo", "default", 2
	reader := fakeapi.Builder(t).Build() // without Leases, brokers have no TLS
	for reason, want := range map[string]string{
		v1alpha1.ReasonBlockedByOpenTransaction: "payments-7", v1alpha1.ReasonUpToDate: ""} {
		brokers := &brokersOf{reason: reason}
		got := NewCollector(reader, Options{Transport: brokers}).poll(t.Context(), cluster)
		if id := got.Rows["orders"][0].OldestTransaction.TransactionalID; id != want {
			t.Errorf("%s: got the transactional id %q, want %q", reason, id, want)
		}
		if asked := len(brokers.requests) > 2; asked != (want != "") {
			t.Errorf("%s: requests %v", reason, brokers.requests)
		}
	}
}
