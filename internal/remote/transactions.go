package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// Errors for requests about transactions.
var (
	ErrUnknownTransactionalID = errors.New("no broker knows the transactional id")
	ErrOwned                  = errors.New("the transaction is not hanging")
)

// Transactions contains a cluster's transactions, as reported by its brokers.
type Transactions struct {
	report.Transactions
	addresses map[int32]string // addresses of the brokers that have reported, by id
}

// Transactions requests the transactions from the brokers at addresses, and from the other brokers
// that their responses name, at the first address's port. Parameter states selects transactional
// ids by state; if it is empty, all are returned. Parameter olderThan is the minimum time for which
// a transaction has been open; 0: all.
func (c *Client) Transactions(ctx context.Context, addresses, states []string,
	olderThan time.Duration) (*Transactions, error) {
	query := url.Values{"state": states}
	if olderThan > 0 {
		query.Set("olderThan", olderThan.String())
	}
	path := "/api/v1/transactions?" + query.Encode()
	all := &Transactions{addresses: map[int32]string{}, Transactions: report.Transactions{
		TransactionalIDs: []report.TransactionalID{}, Open: []report.OpenTransaction{}}}
	for _, address := range addresses {
		var answer report.Transactions
		if err := c.do(ctx, http.MethodGet, address, path, &answer); err != nil {
			return nil, err
		}
		all.add(address, answer)
	}
	_, port, _ := net.SplitHostPort(addresses[0]) // ParseAddress has validated it
	var mu sync.Mutex
	var requests sync.WaitGroup
	for _, broker := range slices.Clone(all.Brokers) {
		if broker.Host == "" || all.addresses[broker.Broker] != "" {
			continue
		}
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
			defer cancel()
			address := net.JoinHostPort(broker.Host, port)
			var answer report.Transactions
			err := c.do(ctx, http.MethodGet, address, path, &answer)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				all.add(address, answer)
			}
		})
	}
	requests.Wait()
	all.Sort()
	return all, ctx.Err()
}

// add adds the response from an address, unless its brokers have already reported. Several brokers
// can have the same host with different ports, so a broker could otherwise be added twice.
func (t *Transactions) add(address string, answer report.Transactions) {
	for _, broker := range answer.Reporting {
		if t.addresses[broker] != "" {
			return
		}
	}
	for _, broker := range answer.Reporting {
		t.addresses[broker] = address
	}
	t.TransactionalIDs = append(t.TransactionalIDs, answer.TransactionalIDs...)
	t.Open = append(t.Open, answer.Open...)
	t.Reporting = append(t.Reporting, answer.Reporting...)
	slices.Sort(t.Reporting)
	t.TimeoutMaxSeconds = answer.TimeoutMaxSeconds
	for _, broker := range answer.Brokers {
		if !slices.Contains(t.Brokers, broker) {
			t.Brokers = append(t.Brokers, broker)
		}
	}
}

// Complete returns an error that names the brokers that have not reported, or nil if all have
// reported.
func (t *Transactions) Complete() error {
	var missing []int32
	for _, broker := range t.Brokers {
		if t.addresses[broker.Broker] == "" {
			missing = append(missing, broker.Broker)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("failed to reach brokers %s: their transactions are missing\n"+
		"Pass their addresses with further --address flags", ids(missing))
}

// Find returns the report on a transactional id.
func (t *Transactions) Find(id string) (*report.TransactionalID, error) {
	for i := range t.TransactionalIDs {
		if t.TransactionalIDs[i].TransactionalID == id {
			return &t.TransactionalIDs[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownTransactionalID, id)
}

// Hanging returns the open transactions that no coordinator knows. The report must be Complete. All
// transactions must be older than their producers' timeouts, because a younger transaction may have
// begun or ended between the reports of two brokers.
func (t *Transactions) Hanging() []report.OpenTransaction {
	hanging := []report.OpenTransaction{}
	for i := range t.Open {
		if t.Owner(&t.Open[i]) == nil {
			hanging = append(hanging, t.Open[i])
		}
	}
	return hanging
}

// TimeoutMax returns the longest transaction timeout that a producer may request.
func (t *Transactions) TimeoutMax() time.Duration {
	return time.Duration(t.TimeoutMaxSeconds * float64(time.Second))
}

// AbortTransaction aborts the ongoing transaction of a transactional id, and fences its producer.
func (c *Client) AbortTransaction(ctx context.Context, addresses []string,
	id string) (answer report.Aborted, err error) {
	all, err := c.Transactions(ctx, addresses, nil, 0)
	if err != nil {
		return answer, err
	}
	found, err := all.Find(id)
	if err != nil {
		return answer, errors.Join(err, all.Complete())
	}
	return c.abort(ctx, all.addresses[found.Coordinator],
		"/api/v1/transactions/"+url.PathEscape(id)+"/abort")
}

// AbortHanging aborts a transaction that no coordinator knows, in one partition. If a coordinator
// knows the transaction, it fails with ErrOwned, because the transaction's other partitions would
// remain open.
func (c *Client) AbortHanging(ctx context.Context, addresses []string,
	key report.TopicPartition, firstOffset int64) (answer report.Aborted, err error) {
	all, err := c.Transactions(ctx, addresses, nil, 0)
	if err != nil {
		return answer, err
	}
	return c.abortHanging(ctx, all, key, firstOffset)
}

// partitionNames formats partitions, such as "orders-0 orders-1", or "-" if there are none.
func partitionNames(partitions []report.TopicPartition) string {
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = p.Topic + "-" + strconv.Itoa(int(p.Partition))
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, " ")
}
