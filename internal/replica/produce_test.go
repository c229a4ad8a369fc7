package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
)

func TestProduceReturnsResultsInOrder(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 2, nil)
	b.apply()
	for _, acks := range []int16{AcksAll, 1, 0} {
		damaged := batch(t, "x")
		damaged[len(damaged)-1] ^= 1
		results := b.Produce(t.Context(), acks, time.Minute, []ProducePartition{
			{ID: id("a", 1), Batch: batch(t, "x", "y")}, {ID: id("none", 0), Batch: batch(t, "x")},
			{ID: id("a", 0), Batch: damaged}, {ID: id("a", 0), Batch: batch(t, "z")},
		})
		for i, want := range []error{nil, ErrUnknownPartition, record.ErrCorrupt, nil} {
			if !errors.Is(results[i].Err, want) {
				t.Errorf("acks %d: result %d: %v, want %v", acks, i, results[i].Err, want)
			}
		}
		if results[0].ID != id("a", 1) ||
			results[0].Appended.LastOffset != results[0].Appended.BaseOffset+1 {
			t.Errorf("acks %d: result 0 is %+v", acks, results[0])
		}
	}
	log, err := b.Leader(id("a", 1), -1)
	if err != nil || log.LogEnd() != 6 || log.HighWatermark() != 6 {
		t.Errorf("log end %d, high watermark %d, want 6: %v", log.LogEnd(), log.HighWatermark(),
			err)
	}
}

// TestAcksAllNeedsMinInSyncReplicas checks that requests with acks=all are rejected if the ISR is
// too small (Kafka: NOT_ENOUGH_REPLICAS), and requests with acks=1 are not.
func TestAcksAllNeedsMinInSyncReplicas(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, func(topic *metadata.Topic) { topic.Settings.MinInSyncReplicas = 2 })
	b.apply()
	if r := b.produce(id("a", 0), "x"); !errors.Is(r.Err, ErrNotEnoughReplicas) {
		t.Errorf("acks=all: %v", r.Err)
	}
	if log, _ := b.Leader(id("a", 0), -1); log.LogEnd() != 0 {
		t.Error("rejected, but appended")
	}
	results := b.Produce(t.Context(), 1, time.Minute,
		[]ProducePartition{{ID: id("a", 0), Batch: batch(t, "x")}})
	if results[0].Err != nil {
		t.Errorf("acks=1: %v", results[0].Err)
	}
}

// startWait starts a produce request that waits for a record above the high watermark.
func startWait(ctx context.Context, t *testing.T, b *broker,
	timeout time.Duration) (op *delayedProduce,
	release func()) {
	t.Helper()
	p, r, err := b.leader(id("a", 0), -1)
	if err != nil {
		t.Fatal(err)
	}
	result := &ProduceResult{ID: p.id}
	// No record has this offset yet; it represents a record that followers lack.
	result.Appended.LastOffset = p.log.LogEnd()
	op = &delayedProduce{waits: []produceWait{{p, r, result, true}}, done: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait(ctx, b.produces.Wait(op, timeout, p.id), nil, op.done)
	}()
	synctest.Wait()
	return op, func() { <-done }
}

func TestAcksAllWaitsForTheHighWatermark(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker) {
		op, wait := startWait(t.Context(), t, b, time.Minute)
		result := op.waits[0].result
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-op.done:
			t.Fatal("acknowledged below the high watermark")
		default:
		}
		b.mustProduce(id("a", 0), "x")
		wait()
		if result.Err != nil {
			t.Error(result.Err)
		}
	})
}

func TestAcksAllEndsWithAnError(t *testing.T) {
	for name, c := range map[string]struct {
		end func(t *testing.T, b *broker, cancel context.CancelFunc)
		err error
	}{
		"timeout": {func(*testing.T, *broker,
			context.CancelFunc) {
			time.Sleep(2 * time.Minute)
		}, ErrTimeout},
		"canceled": {func(_ *testing.T, _ *broker, cancel context.CancelFunc) { cancel() },
			ErrTimeout},
		"set closed": {func(_ *testing.T, b *broker, _ context.CancelFunc) { b.Close() },
			ErrTimeout},
		"topic deleted": {func(_ *testing.T, b *broker,
			_ context.CancelFunc) {
			delete(b.topics, "a")
			b.apply()
		}, ErrUnknownPartition},
		"new epoch": {func(_ *testing.T, b *broker, _ context.CancelFunc) {
			b.topics["a"].Partitions[0].LeaderEpoch++
			b.apply()
		}, ErrNotLeader},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *broker) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				op, wait := startWait(ctx, t, b, time.Minute)
				result := op.waits[0].result
				c.end(t, b, cancel)
				wait()
				if !errors.Is(result.Err, c.err) {
					t.Errorf("error %v, want %v", result.Err, c.err)
				}
			})
		})
	}
}
