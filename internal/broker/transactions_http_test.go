package broker

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/test/kit/await"
)

// transactionsOf sends GET /api/v1/transactions and returns the report.
func transactionsOf(t *testing.T, handler http.Handler, query string) report.Transactions {
	t.Helper()
	r := get(t, handler, "GET", "/api/v1/transactions"+query)
	var answer report.Transactions
	if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || r.Code != http.StatusOK {
		t.Fatalf("%s: response %d %s: %v", query, r.Code, r.Body, err)
	}
	return answer
}

// begin begins a transaction, writes one record in it, and leaves it open.
func begin(t *testing.T, c *cluster, id string) *kgo.Client {
	t.Helper()
	client := c.client(kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), kgo.StringRecord(id)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return client
}

// TestTransactionsOverHTTP checks that an open transaction is listed both with the state of its
// transactional id and in its partition. Aborting the transactional id must end it, and a second
// abort must find no open transaction.
func TestTransactionsOverHTTP(t *testing.T) {
	c := newCluster(t)
	c.start()
	begin(t, c, "pay/7")
	handler := httpport.New(HTTPOf(prometheus.NewRegistry(), c.Broker.Ready,
		func() Brokers { return Brokers{c.Broker} }))
	all := transactionsOf(t, handler, "?state=Ongoing")
	if len(all.TransactionalIDs) != 1 || len(all.Open) != 1 || len(all.Brokers) != 1 ||
		all.TimeoutMaxSeconds != 900 {
		t.Fatalf("got %+v", all)
	}
	id, open := all.TransactionalIDs[0], all.Open[0]
	if id.TransactionalID != "pay/7" || id.TimeoutSeconds != 60 {
		t.Errorf("got %+v, want pay/7 with 60 s", id)
	}
	if id.Until == nil || *id.Until-*id.Since != 60 {
		t.Errorf("got %+v, want an end after 60 s", id)
	}
	if len(id.Partitions) != 1 || id.Partitions[0] != open.TopicPartition {
		t.Errorf("got partitions %+v, want %+v", id.Partitions, open.TopicPartition)
	}
	if open.ProducerID != id.ProducerID {
		t.Errorf("got producer %d, want %d", open.ProducerID, id.ProducerID)
	}
	if owner := all.Owner(&open); owner == nil || owner.TransactionalID != "pay/7" {
		t.Errorf("the owner of the open transaction is %+v", owner)
	}
	for _, query := range []string{"?state=Empty", "?olderThan=1h"} {
		if some := transactionsOf(t, handler, query); len(some.TransactionalIDs) != 0 {
			t.Errorf("%s: got %+v", query, some.TransactionalIDs)
		}
	}
	abort := "/api/v1/transactions/" + url.PathEscape("pay/7") + "/abort"
	if r := get(t, handler, "POST", abort); r.Code != http.StatusOK {
		t.Errorf("abort: response %d %s", r.Code, r.Body)
	}
	await.Until(t, "the transaction is aborted", func() bool {
		all = transactionsOf(t, handler, "")
		return len(all.Open) == 0 && all.TransactionalIDs[0].State == "CompleteAbort"
	})
	expectFailures(t, handler, map[string]string{
		abort:                                "409 NoOpenTransaction",
		"/api/v1/transactions/unknown/abort": "404 UnknownTransactionalId",
		"/api/v1/topics/unknown/abort-transaction?partition=0&firstOffset=0":   "404 UnknownPartition",
		"/api/v1/topics/unknown/abort-transaction?partition=0":                 "400 BadRequest",
		"/api/v1/topics/unknown/abort-transaction?partition=two&firstOffset=0": "400 BadRequest",
	})
	if r := get(t, handler, "GET", "/api/v1/transactions?olderThan=old"); r.Code != 400 {
		t.Errorf("olderThan=old: response %d %s", r.Code, r.Body)
	}
}

func expectFailures(t *testing.T, handler http.Handler, want map[string]string) {
	t.Helper()
	for path, expected := range want {
		r := get(t, handler, "POST", path)
		var failure report.Failure
		if err := json.Unmarshal(r.Body.Bytes(), &failure); err != nil {
			t.Fatal(err)
		}
		if got := strconv.Itoa(r.Code) + " " + failure.Reason; got != expected {
			t.Errorf("POST %s: %s (%s), want %s", path, got, failure.Error, expected)
		}
	}
}

// TestAbortOfAnOpenTransactionInOnePartition checks that the abort marker ends the transaction in
// the partition's log, although the coordinator is not involved.
func TestAbortOfAnOpenTransactionInOnePartition(t *testing.T) {
	c := newCluster(t)
	c.start()
	begin(t, c, "hanging")
	handler := httpport.New(HTTPOf(prometheus.NewRegistry(), c.Broker.Ready,
		func() Brokers { return Brokers{c.Broker} }))
	open := transactionsOf(t, handler, "").Open[0]
	path := "/api/v1/topics/" + open.Topic + "/abort-transaction?partition=" +
		strconv.Itoa(int(open.Partition)) + "&firstOffset="
	expectFailures(t, handler, map[string]string{
		path + strconv.FormatInt(open.FirstOffset+1, 10): "409 NoOpenTransaction"})
	if r := get(t, handler, "POST", path+strconv.FormatInt(open.FirstOffset, 10)); r.Code != 200 {
		t.Fatalf("response %d %s", r.Code, r.Body)
	}
	after := transactionsOf(t, handler, "")
	if len(after.Open) != 0 || after.TransactionalIDs[0].State != "Ongoing" {
		t.Errorf("after the abort: %+v", after)
	}
}

// TestTransactionsOfAStartingBroker checks the responses while the brokers of a process are
// starting and the list of brokers is still empty.
func TestTransactionsOfAStartingBroker(t *testing.T) {
	handler := httpport.New(HTTPOf(prometheus.NewRegistry(), nil, func() Brokers { return nil }))
	if r := get(t, handler, "GET", "/api/v1/transactions"); r.Code != 503 {
		t.Errorf("GET: response %d %s", r.Code, r.Body)
	}
	expectFailures(t, handler, map[string]string{"/api/v1/transactions/a/abort": "503 NotReady",
		"/api/v1/topics/a/abort-transaction?partition=0&firstOffset=0": "503 NotReady"})
}
