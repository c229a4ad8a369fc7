package remote

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/report"
)

var orders0 = report.TopicPartition{Topic: "orders", Partition: 0}

// ongoing returns a transactional id with an open transaction.
func ongoing(id string, coordinator int32, producer int64) report.TransactionalID {
	return report.TransactionalID{TransactionalID: id, Coordinator: coordinator, State: "Ongoing",
		ProducerID: producer, TimeoutSeconds: 60, Since: new(float64(1000)),
		Until: new(float64(1060)), Changed: 1000, Partitions: []report.TopicPartition{orders0}}
}

func openAt(broker int32, offset, producer int64) report.OpenTransaction {
	return report.OpenTransaction{Broker: broker, TopicPartition: orders0,
		Transaction: report.Transaction{ProducerID: producer, FirstOffset: offset, Since: 1000}}
}

// serveTransactions starts the HTTP server of one broker. It records the requests that change
// something.
func serveTransactions(t *testing.T, all report.Transactions, address string,
	changes *[]string) string {
	t.Helper()
	return serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			*changes = append(*changes, r.URL.String())
			_ = json.NewEncoder(w).Encode(report.Aborted{})
			return
		}
		_ = json.NewEncoder(w).Encode(all)
	}), address)
}

// twoBrokers starts two brokers at the same port. Broker 0 coordinates "a" and leads orders-0, in
// which producers 1, 2 and 3 have open transactions. Broker 1 coordinates "b". No broker
// coordinates producer 3.
func twoBrokers(t *testing.T) (address string, changes *[]string) {
	t.Helper()
	changes = &[]string{}
	hosts := []report.BrokerHost{{Broker: 0, Host: "127.0.0.1"}, {Broker: 1, Host: "127.0.0.2"}}
	address = serveTransactions(t, report.Transactions{Brokers: hosts, Reporting: []int32{0},
		TransactionalIDs: []report.TransactionalID{ongoing("a", 0, 1)}, TimeoutMaxSeconds: 900,
		Open: []report.OpenTransaction{openAt(0, 5, 1), openAt(0, 7, 2), openAt(0, 9, 3)}},
		"127.0.0.1:0", changes)
	_, port, _ := net.SplitHostPort(address)
	serveTransactions(t, report.Transactions{Brokers: hosts, Reporting: []int32{1},
		TransactionalIDs: []report.TransactionalID{ongoing("b/c", 1, 2)}},
		net.JoinHostPort("127.0.0.2", port), changes)
	return address, changes
}

// TestTransactionsOfAllBrokers checks that requests are sent to all brokers that a response names.
// A transaction that no coordinator knows must be reported as hanging.
func TestTransactionsOfAllBrokers(t *testing.T) {
	address, _ := twoBrokers(t)
	all, err := (&Client{}).Transactions(t.Context(), []string{address}, nil, 0)
	if err != nil || all.Complete() != nil {
		t.Fatal(err, all.Complete())
	}
	if len(all.TransactionalIDs) != 2 || all.TransactionalIDs[1].TransactionalID != "b/c" {
		t.Errorf("got %+v", all.TransactionalIDs)
	}
	if diff := cmp.Diff([]report.OpenTransaction{openAt(0, 9, 3)}, all.Hanging()); diff != "" {
		t.Errorf("hanging (-want +got):\n%s", diff)
	}
}

// TestUnreachableBrokersAreReported checks that brokers whose transactions are missing are
// reported. Several brokers on the same host have different ports, so the client can reach them
// only if it knows their addresses.
func TestUnreachableBrokersAreReported(t *testing.T) {
	var changes []string
	hosts := []report.BrokerHost{{Broker: 0, Host: "127.0.0.1"}, {Broker: 1, Host: "127.0.0.1"}}
	address := serveTransactions(t, report.Transactions{Brokers: hosts, Reporting: []int32{0},
		TransactionalIDs: []report.TransactionalID{ongoing("a", 0, 1)}}, "127.0.0.1:0", &changes)
	other := serveTransactions(t, report.Transactions{Brokers: hosts, Reporting: []int32{1}},
		"127.0.0.1:0", &changes)
	all, err := (&Client{}).Transactions(t.Context(), []string{address}, nil, 0)
	if err != nil || all.Complete() == nil || len(all.TransactionalIDs) != 1 {
		t.Errorf("got %+v, %v, want the transactions of broker 0 once", all, err)
	}
	all, err = (&Client{}).Transactions(t.Context(), []string{address, other}, nil, 0)
	if err != nil || all.Complete() != nil {
		t.Errorf("with both addresses: %v, %v", err, all.Complete())
	}
}

// TestAbortIsSentToTheRightBroker checks that the abort of a transactional id is sent to its
// coordinator, and the abort of a hanging transaction to the leader. A transaction that a
// coordinator knows must not be aborted in only one partition.
func TestAbortIsSentToTheRightBroker(t *testing.T) {
	address, changes := twoBrokers(t)
	addresses, client := []string{address}, &Client{}
	if _, err := client.AbortTransaction(t.Context(), addresses, "b/c"); err != nil {
		t.Error(err)
	}
	if _, err := client.AbortHanging(t.Context(), addresses, orders0, 9); err != nil {
		t.Error(err)
	}
	if _, err := client.AbortHanging(t.Context(), addresses, orders0, 7); !errors.Is(err,
		ErrOwned) || !strings.Contains(err.Error(), `"b/c"`) {
		t.Errorf("abort of one partition of b/c: %v", err)
	}
	if _, err := client.AbortHanging(t.Context(), addresses, orders0, 6); err == nil {
		t.Error("abort at an offset where no transaction begins succeeded")
	}
	if _, err := client.AbortTransaction(t.Context(), addresses, "x"); !errors.Is(err,
		ErrUnknownTransactionalID) {
		t.Errorf("abort of an unknown id: %v", err)
	}
	want := []string{"/api/v1/transactions/b%2Fc/abort",
		"/api/v1/topics/orders/abort-transaction?firstOffset=9&partition=0"}
	if diff := cmp.Diff(want, *changes); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestPrintTransactions(t *testing.T) {
	now := time.Unix(1030, 0)
	done := report.TransactionalID{TransactionalID: "z", Coordinator: 2, State: "CompleteCommit",
		ProducerID: 9, Epoch: 4, Since: new(float64(900)), Changed: 901}
	first := ongoing("a", 0, 1)
	var out strings.Builder
	if err := errors.Join(
		PrintTransactions(&out, []report.TransactionalID{first, done}, now),
		PrintOpen(&out, []report.OpenTransaction{openAt(0, 9, 3)}, now),
		PrintTransaction(&out, &first)); err != nil {
		t.Fatal(err)
	}
	want := `
TRANSACTIONAL-ID   COORDINATOR   STATE            PRODUCER   EPOCH   PARTITIONS   OPEN   ENDS-IN
a                  0             Ongoing          1          0       1            30s    30s
z                  2             CompleteCommit   9          4       0            -      -
TOPIC    PARTITION   LEADER   PRODUCER   EPOCH   FIRST-OFFSET   OPEN
orders   0           0        3          0       9              30s
TRANSACTIONAL-ID   a
COORDINATOR        0
STATE              Ongoing
PRODUCER           1
EPOCH              0
TIMEOUT            1m0s
STARTED            1970-01-01T00:16:40Z
ENDS-BY            1970-01-01T00:17:40Z
CHANGED            1970-01-01T00:16:40Z
PARTITIONS         orders-0
UNMARKED           0
`
	if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
