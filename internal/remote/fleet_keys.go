package remote

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"heartwood.dev/heartwood/api/report"
)

// Keys requests a key's records from all brokers at once, which are the brokers in the last Ask. If
// a partition's leader did not respond, the partition is in the result's Elsewhere. The brokers
// that failed are sorted by address. Keys fails with a *Refused if a broker refused the request and
// none has responded with a partition.
//
// Unlike Client.Keys, it does not fail if some leaders are missing, and sends requests to no other
// brokers.
func (f *Fleet) Keys(ctx context.Context, q KeyQuery) (report.Keys, []Unanswered, error) {
	all := report.Keys{Topic: q.Topic, Key: q.Key}
	addresses := f.known()
	answers, failures := make([]report.Keys, len(addresses)), make([]error, len(addresses))
	var requests sync.WaitGroup
	for i, address := range addresses {
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
			defer cancel()
			failures[i] = f.client.do(ctx, http.MethodGet, address, q.path(q.Partition, q.All),
				&answers[i])
		})
	}
	requests.Wait()
	var failed []Unanswered
	var refused *Refused
	for i, err := range failures {
		if err == nil {
			addKeys(&all, answers[i])
			continue
		}
		failed = append(failed, Unanswered{addresses[i], err})
		errors.As(err, &refused)
	}
	slices.SortFunc(failed,
		func(a, b Unanswered) int { return strings.Compare(a.Address, b.Address) })
	slices.SortFunc(all.Partitions,
		func(a, b report.KeyPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortFunc(all.Elsewhere,
		func(a, b report.KeyElsewhere) int { return cmp.Compare(a.Partition, b.Partition) })
	if refused != nil && len(all.Partitions) == 0 {
		return all, failed, refused
	}
	return all, failed, nil
}
