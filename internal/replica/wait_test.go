package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// inBubble runs a test in a synctest bubble, with a broker that leads partitions 0 and 1 of topic
// "a".
func inBubble(t *testing.T, test func(t *testing.T, b *broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		b.topic("a", 2, nil)
		b.apply()
		test(t, b)
	})
}

// inBackground sends a fetch in a goroutine, and measures how long it takes.
func (b *broker) inBackground(ctx context.Context, req FetchRequest) <-chan answer {
	responses := make(chan answer, 1)
	start := time.Now()
	go func() {
		results := b.Fetch(ctx, req)
		responses <- answer{results, time.Since(start)}
	}()
	synctest.Wait()
	return responses
}

type answer struct {
	results []FetchResult
	took    time.Duration
}

func TestFetchReturnsExistingRecordsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		b.mustProduce(id("a", 0), "x")
		a := <-b.inBackground(t.Context(), fetch(time.Minute, 0, id("a", 1), id("a", 0)))
		if a.took != 0 || len(values(t, a.results[0])) != 0 ||
			!slices.Equal(values(t, a.results[1]), []string{"x"}) {
			t.Errorf("got %+v, want the record of partition 0 without a wait", a)
		}
		if r := a.results[1]; r.LogStart != 0 || r.HighWater != 1 || r.Stable != 1 {
			t.Errorf("got log start %d, high watermark %d, last stable offset %d; want 0, 1, 1",
				r.LogStart, r.HighWater, r.Stable)
		}
	})
}

func TestFetchWaitsForAnAppend(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		responses := b.inBackground(t.Context(), fetch(time.Minute, 0, id("a", 0), id("a", 1)))
		time.Sleep(3 * time.Second)
		b.mustProduce(id("a", 1), "x")
		a := <-responses
		if a.took != 3*time.Second || !slices.Equal(values(t, a.results[1]), []string{"x"}) {
			t.Errorf("got %+v, want the record of partition 1 after 3 s", a)
		}
	})
}

func TestFetchReturnsEmptyAfterItsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		responses := b.inBackground(t.Context(), fetch(500*time.Millisecond, 0, id("a", 0)))
		time.Sleep(time.Second)
		a := <-responses
		if late := a.took - 500*time.Millisecond; late < 0 || late > 2*time.Millisecond ||
			len(values(t, a.results[0])) != 0 {
			t.Errorf("got %+v, want no records after 500 ms", a)
		}
	})
}

// TestFetchWaitsForBytesMin checks that a fetch waits until the records of all partitions together
// have BytesMin bytes.
func TestFetchWaitsForBytesMin(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		req := fetch(time.Minute, 0, id("a", 0), id("a", 1))
		req.BytesMin = 3 * len(batch(t, "12345"))
		responses := b.inBackground(t.Context(), req)
		for i, to := range []PartitionID{id("a", 0), id("a", 1), id("a", 0)} {
			time.Sleep(time.Second)
			if len(responses) != 0 {
				t.Fatalf("returned after %d batches", i)
			}
			b.mustProduce(to, "12345")
		}
		a := <-responses
		if a.took != 3*time.Second || len(values(t, a.results[0]))+
			len(values(t, a.results[1])) != 3 {
			t.Errorf("got %+v, want 3 records after 3 s", a)
		}
	})
}

// TestFetchAcrossSegmentsDoesNotWait checks that a fetch returns the batches of one segment at
// once, even if they have less than BytesMin bytes and more data exist in the next segment. A
// response contains batches of only one segment; the client fetches the others next.
func TestFetchAcrossSegmentsDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		b.topic("a", 1, func(topic *metadata.Topic) { topic.Settings.SegmentBytes = 1024 })
		b.apply()
		for range 50 {
			b.mustProduce(id("a", 0), "0123456789012345678901234567890123456789")
		}
		req := fetch(time.Minute, 0, id("a", 0))
		req.BytesMin = 4096
		a := <-b.inBackground(t.Context(), req)
		if got := values(t, a.results[0]); len(got) == 0 || a.took != 0 {
			t.Errorf("%d records after %v", len(got), a.took)
		}
	})
}

// TestFetchBytesMax checks that BytesMax limits the whole response, but the first batch of the
// first partition with data is still returned whole.
func TestFetchBytesMax(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		size := len(batch(t, "12345"))
		for range 4 {
			b.mustProduce(id("a", 0), "12345")
			b.mustProduce(id("a", 1), "12345")
		}
		for _, c := range []struct{ max, partitionMax, first, second int }{
			{1, 1 << 20, 1, 0},
			{size, 1 << 20, 1, 0},
			{3 * size, 1 << 20, 3, 0},
			{6 * size, 1 << 20, 4, 2},
			{1 << 20, 2 * size, 2, 2},
			{1 << 20, 1, 1, 0},
		} {
			req := fetch(0, 0, id("a", 0), id("a", 1))
			req.BytesMax = c.max
			for i := range req.Partitions {
				req.Partitions[i].BytesMax = c.partitionMax
			}
			results := b.Fetch(t.Context(), req)
			if first, second := len(values(t, results[0])),
				len(values(t, results[1])); first != c.first || second != c.second {
				t.Errorf("BytesMax %d, %d per partition: %d and %d batches, want %d and %d", c.max,
					c.partitionMax, first, second, c.first, c.second)
			}
		}
	})
}

// TestFetchOfARangeWithoutRecordsWaits checks that a fetch of offsets whose records have all been
// cleaned away waits for new records. The range that the first read covered must not complete the
// wait. Otherwise the client would at once send the same fetch again, without end.
func TestFetchOfARangeWithoutRecordsWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		b.mustProduce(id("a", 0), "x")
		p, r, err := b.leader(id("a", 0), -1)
		if err != nil {
			t.Fatal(err)
		}
		req := fetch(time.Minute, 0, p.id)
		op := &delayedFetch{req: req, done: make(chan struct{}),
			positions: []position{{partition: p, role: r, request: req.Partitions[0], limit: 1}}}
		if op.TryComplete() {
			t.Error("the fetch completed although no record was appended")
		}
		b.mustProduce(id("a", 0), "y")
		if !op.TryComplete() {
			t.Error("the fetch did not complete after an append")
		}
	})
}

func TestFetchErrorsDoNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		for name, c := range map[string]struct {
			fetchPartition FetchPartition
			err            error
		}{
			"beyond the end": {FetchPartition{ID: id("a", 0), Offset: 1, LeaderEpoch: -1,
				LastEpoch: -1}, logstore.ErrOffsetOutOfRange},
			"below the start": {FetchPartition{ID: id("a", 0), Offset: -1, LeaderEpoch: -1,
				LastEpoch: -1}, logstore.ErrOffsetOutOfRange},
			"unknown": {FetchPartition{ID: id("b", 0), LeaderEpoch: -1},
				ErrUnknownPartition},
			"old leader epoch": {FetchPartition{ID: id("a", 0), LeaderEpoch: 0},
				ErrFencedLeaderEpoch},
		} {
			req := fetch(time.Minute, 0, id("a", 1))
			req.Partitions = append(req.Partitions, c.fetchPartition)
			a := <-b.inBackground(t.Context(), req)
			if a.took != 0 || !errors.Is(a.results[1].Err, c.err) || a.results[1].Data != nil {
				t.Errorf("%s: %v after %v", name, a.results[1].Err, a.took)
			}
			a.results[0].Data.Release()
		}
	})
}

// TestWaitingFetchEndsWithItsPartition checks that a fetch stops waiting when its broker no longer
// serves the partition.
func TestWaitingFetchEndsWithItsPartition(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *broker)
		err    error
	}{
		"deleted":       {func(b *broker) { delete(b.topics, "a") }, ErrUnknownPartition},
		"another leads": {func(b *broker) { b.topics["a"].Partitions[0].Leader = 9 }, ErrNotLeader},
		"reassigned": {func(b *broker) { b.topics["a"].Partitions[0].Replicas = []int32{9} },
			ErrNotLeader},
		"recreated": {func(b *broker) {
			delete(b.topics, "a")
			b.topic("a", 2, nil)
		}, nil},
		"new epoch": {func(b *broker) { b.topics["a"].Partitions[0].LeaderEpoch++ }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *broker) {
				responses := b.inBackground(t.Context(), fetch(time.Hour, 0, id("a", 0)))
				time.Sleep(time.Second)
				c.change(b)
				b.apply()
				synctest.Wait()
				if len(responses) == 0 {
					t.Fatal("the fetch still waits")
				}
				a := <-responses
				if !errors.Is(a.results[0].Err, c.err) {
					t.Errorf("error %v, want %v", a.results[0].Err, c.err)
				}
				if a.results[0].Data != nil {
					a.results[0].Data.Release()
				}
			})
		})
	}
}

// TestWaitingFetchIgnoresOtherImages checks that a fetch continues to wait when an image does not
// change its partitions.
func TestWaitingFetchIgnoresOtherImages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		responses := b.inBackground(t.Context(), fetch(time.Minute, 0, id("a", 0)))
		b.topic("b", 1, nil)
		b.apply()
		b.mustProduce(id("b", 0), "x")
		b.mustProduce(id("a", 1), "x")
		synctest.Wait()
		if len(responses) != 0 {
			t.Error("the wait ended")
		}
		time.Sleep(2 * time.Minute)
		(<-responses).results[0].Data.Release()
	})
}

func TestCancelAndCloseEndWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		ctx, cancel := context.WithCancel(t.Context())
		canceled := b.inBackground(ctx, fetch(time.Hour, 0, id("a", 0)))
		closed := b.inBackground(t.Context(), fetch(time.Hour, 0, id("a", 0)))
		cancel()
		(<-canceled).results[0].Data.Release()
		if len(closed) != 0 {
			t.Error("the other fetch ended too")
		}
		b.Close()
		if a := <-closed; a.took != 0 {
			t.Errorf("ended after %v", a.took)
		}
		if a := <-b.inBackground(t.Context(), fetch(time.Hour, 0, id("a", 0))); a.took != 0 {
			t.Errorf("waited %v in a closed set", a.took)
		}
	})
}
