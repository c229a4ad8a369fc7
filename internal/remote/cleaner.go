package remote

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"heartwood.dev/heartwood/api/report"
)

// PassQuery selects passes of the cleaner.
type PassQuery struct {
	Topic  string
	Broker int32 // used together with ID
	ID     int64 // one pass with its steps; 0: the last Limit passes
	Limit  int
}

func (q PassQuery) path() string {
	values := url.Values{"topic": {q.Topic}}
	if q.ID != 0 {
		values.Set("broker", strconv.Itoa(int(q.Broker)))
		values.Set("id", strconv.FormatInt(q.ID, 10))
		values.Set("steps", "true")
	} else {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return "/api/v1/passes?" + values.Encode()
}

// Passes sends GET /api/v1/passes to all brokers and returns the passes, the newest first. It omits
// brokers that do not respond.
func (f *Fleet) Passes(ctx context.Context, query PassQuery) []report.PartitionPass {
	var all []report.PartitionPass
	for _, passes := range each(ctx, f, func(ctx context.Context, address string) (report.Passes,
		error) {
		var response report.Passes
		err := f.client.do(ctx, http.MethodGet, address, query.path(), &response)
		return response, err
	}) {
		all = append(all, passes.Passes...)
	}
	slices.SortStableFunc(all, func(a, b report.PartitionPass) int {
		return cmp.Or(cmp.Compare(b.Began, a.Began), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Broker, b.Broker))
	})
	return slices.CompactFunc(all, func(a, b report.PartitionPass) bool {
		return a.ID == b.ID && a.Broker == b.Broker
	})
}

// each sends a request to all brokers at once and returns the responses.
func each[T any](ctx context.Context, f *Fleet,
	request func(context.Context, string) (T, error)) (responses []T) {
	addresses := f.known()
	found := make([]*T, len(addresses))
	var requests sync.WaitGroup
	for i, address := range addresses {
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
			defer cancel()
			if response, err := request(ctx, address); err == nil {
				found[i] = &response
			}
		})
	}
	requests.Wait()
	for _, response := range found {
		if response != nil {
			responses = append(responses, *response)
		}
	}
	return responses
}

// Events calls Client.Events.
func (f *Fleet) Events(ctx context.Context, address, topic string,
	handle func(name string, data []byte)) error {
	return f.client.Events(ctx, address, topic, handle)
}
