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
	"sync"

	"heartwood.dev/heartwood/api/report"
)

// ErrUnknownTransaction means that no leader has the transaction in its log.
var ErrUnknownTransaction = errors.New("no such transaction")

// Transactions requests the transactions from the brokers in the last Ask. If the fleet discovers
// brokers, it also requests them from the brokers that responses name. The result lacks the
// transactions of brokers that did not respond.
func (f *Fleet) Transactions(ctx context.Context) (*Transactions, []Unanswered) {
	all := &Transactions{addresses: map[int32]string{}}
	addresses := f.known()
	unanswered := f.addTransactions(ctx, all, addresses)
	if _, port, err := net.SplitHostPort(f.addresses[0]); f.discover && err == nil {
		var further []string
		for _, broker := range all.Brokers {
			address := net.JoinHostPort(broker.Host, port)
			if broker.Host != "" && all.addresses[broker.Broker] == "" &&
				!slices.Contains(addresses, address) {
				further = append(further, address)
			}
		}
		unanswered = append(unanswered, f.addTransactions(ctx, all, further)...)
	}
	all.Sort()
	return all, unanswered
}

// addTransactions adds the responses of the brokers at addresses, and returns the brokers that did
// not respond.
func (f *Fleet) addTransactions(ctx context.Context, all *Transactions,
	addresses []string) (unanswered []Unanswered) {
	answers, faults := make([]report.Transactions, len(addresses)), make([]error, len(addresses))
	var requests sync.WaitGroup
	for i, address := range addresses {
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
			defer cancel()
			faults[i] = f.client.do(ctx, http.MethodGet, address, "/api/v1/transactions", &answers[i])
		})
	}
	requests.Wait()
	for i, address := range addresses {
		if faults[i] != nil {
			unanswered = append(unanswered, Unanswered{address, faults[i]})
			continue
		}
		all.add(address, answers[i])
	}
	return unanswered
}

// AbortTransaction aborts the ongoing transaction of a transactional id, and fences its producer.
func (f *Fleet) AbortTransaction(ctx context.Context, id string) (report.Aborted, error) {
	all, _ := f.Transactions(ctx)
	found, err := all.Find(id)
	if err != nil {
		return report.Aborted{}, errors.Join(err, all.Complete())
	}
	return f.client.abort(ctx, all.addresses[found.Coordinator],
		"/api/v1/transactions/"+url.PathEscape(id)+"/abort")
}

// AbortHanging aborts a transaction that no coordinator knows, in one partition. Like
// Client.AbortHanging, it fails with ErrOwned if a coordinator knows the transaction.
func (f *Fleet) AbortHanging(ctx context.Context, key report.TopicPartition,
	firstOffset int64) (report.Aborted, error) {
	all, _ := f.Transactions(ctx)
	return f.client.abortHanging(ctx, all, key, firstOffset)
}

func (c *Client) abort(ctx context.Context, address, path string) (answer report.Aborted,
	err error) {
	err = c.do(ctx, http.MethodPost, address, path, &answer)
	return answer, err
}

// abortHanging aborts a hanging transaction in one partition. Parameter all contains the
// transactions of all brokers, and must be complete.
func (c *Client) abortHanging(ctx context.Context, all *Transactions, key report.TopicPartition,
	firstOffset int64) (answer report.Aborted, err error) {
	if err := all.Complete(); err != nil {
		return answer, err
	}
	index := slices.IndexFunc(all.Open, func(o report.OpenTransaction) bool {
		return o.TopicPartition == key && o.FirstOffset == firstOffset
	})
	if index < 0 {
		return answer, fmt.Errorf("%w: none begins at offset %d of %s-%d", ErrUnknownTransaction,
			firstOffset, key.Topic, key.Partition)
	}
	open := &all.Open[index]
	if owner := all.Owner(open); owner != nil {
		return answer, fmt.Errorf("%w: it is that of transactional id %q; abort it with\n"+
			"heartwood transactions abort %s", ErrOwned, owner.TransactionalID,
			strconv.Quote(owner.TransactionalID))
	}
	query := url.Values{"partition": {strconv.Itoa(int(key.Partition))},
		"firstOffset": {strconv.FormatInt(firstOffset, 10)}}
	return c.abort(ctx, all.addresses[open.Broker],
		"/api/v1/topics/"+url.PathEscape(key.Topic)+"/abort-transaction?"+query.Encode())
}
