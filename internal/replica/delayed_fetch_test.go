package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// TestDelayedFetchReadsOnlyGrownPartitions checks that an evaluation of a waiting fetch reads only
// the partitions that have grown since the previous evaluation, and not all that have grown since
// the fetch arrived.
func TestDelayedFetchReadsOnlyGrownPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		req := fetch(time.Minute, 0, id("a", 0), id("a", 1))
		req.BytesMin = 1 << 20
		positions := make([]position, len(req.Partitions))
		b.read(&req, make([]FetchResult, len(req.Partitions)), positions)
		op := &delayedFetch{req: req, positions: positions, done: make(chan struct{})}
		b.mustProduce(id("a", 0), "12345")
		if op.TryComplete() {
			t.Fatal("completed with a few bytes of the requested MiB")
		}
		for i, want := range []position{{limit: 1, bytes: len(batch(t, "12345"))}, {}} {
			if got := positions[i]; got.limit != want.limit || got.bytes != want.bytes {
				t.Errorf("partition %d: read up to %d, %d bytes; want %d, %d", i, got.limit,
					got.bytes, want.limit, want.bytes)
			}
		}
	})
}

// TestRequestsDuringApply makes topics appear, disappear and change their leader epoch while
// clients produce and fetch. Every request must end with a result that a client can handle. With
// -race, the test also verifies that Apply and requests share no unguarded data.
func TestRequestsDuringApply(t *testing.T) {
	b := newBroker(t)
	b.topic("steady", 2, nil)
	b.topic("a", 2, nil)
	b.apply()
	ctx, cancel := context.WithCancel(t.Context())
	expected := []error{ErrUnknownPartition, ErrNotLeader, context.Canceled, ErrTimeout,
		logstore.ErrOffsetOutOfRange}
	check := func(err error) {
		for _, e := range expected {
			if err == nil || errors.Is(err, e) {
				return
			}
		}
		t.Errorf("unexpected error: %v", err)
	}
	var clients sync.WaitGroup
	for i := range int32(2) {
		clients.Go(func() {
			for ctx.Err() == nil {
				for _, r := range b.Produce(ctx, AcksAll, time.Second, []ProducePartition{
					{ID: id("steady", i), Batch: batch(t, "x")},
					{ID: id("a", i), Batch: batch(t, "x")},
				}) {
					check(r.Err)
				}
			}
		})
		clients.Go(func() {
			for offset := int64(0); ctx.Err() == nil; offset++ {
				for _, r := range b.Fetch(ctx,
					fetch(time.Millisecond, offset, id("steady", i), id("a", i))) {
					check(r.Err)
					if r.Data != nil {
						r.Data.Release()
					}
				}
			}
		})
	}
	changes := 100
	if testing.Short() {
		changes = 10
	}
	for range changes {
		delete(b.topics, "a")
		b.apply()
		b.topic("a", 2, nil)
		b.apply()
		b.topic("a", 2, func(t *metadata.Topic) { t.Partitions[1].LeaderEpoch = 2 })
		b.apply()
	}
	cancel()
	clients.Wait()
}
