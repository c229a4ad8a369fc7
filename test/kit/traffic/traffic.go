package traffic

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
)

// fillerBytes of noise make a value large enough to fill segments, whatever the codec.
const fillerBytes = 100

// Updates is a load: every key is written once a round. Produce deletes every DeleteEvery-th key in
// the last round; Stream, which has none, deletes other keys in each round, so that keys are
// deleted, written again and deleted again.
type Updates struct {
	Topic       string
	Keys        int
	Rounds      int    // how many rounds Produce writes; Stream counts its rounds from there
	DeleteEvery int    // 0: none is deleted
	PerSecond   int    // how many records Stream writes in a second at most; 0: as many as it can
	Seed        uint64 // of the noise in the values
}

// Produce sends the load and waits until all of it is acknowledged, or one record is refused.
func Produce(ctx context.Context, client *kgo.Client, book *ledger.Ledger, load Updates) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	noise := rand.New(rand.NewPCG(load.Seed, 0))
	for round := range load.Rounds {
		for key := range load.Keys {
			deleted := load.DeleteEvery > 0 && round == load.Rounds-1 && key%load.DeleteEvery == 0
			send(ctx, client, book, record(load.Topic, key, round, deleted, noise), cancel)
		}
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("produce to %s: %w", load.Topic, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// send hands a record to the client; refused is told when the log does not take it.
func send(ctx context.Context, client *kgo.Client, book *ledger.Ledger, r *kgo.Record,
	refused context.CancelCauseFunc) {
	book.Sent(r)
	client.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			refused(fmt.Errorf("produce key %s: %w", r.Key, err))
			return
		}
		book.Acknowledged(r)
	})
}

func record(topic string, key, round int, deleted bool, noise *rand.Rand) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%06d", key)}
	if deleted {
		return r
	}
	filler := make([]byte, fillerBytes)
	for i := range filler {
		filler[i] = byte(noise.Uint32())
	}
	r.Value = fmt.Appendf(nil, "round %d of key %d: %s", round, key, hex.EncodeToString(filler))
	return r
}

// Stream sends updates of keys, round after round, until ctx ends, and then waits for nothing: what
// has no answer by then stays unacknowledged. It returns how many records it handed over.
func Stream(ctx context.Context, client *kgo.Client, book *ledger.Ledger, load Updates) int64 {
	noise := rand.New(rand.NewPCG(load.Seed, 1))
	var handed atomic.Int64
	began := time.Now()
	for round := load.Rounds; ctx.Err() == nil; round++ {
		for key := 0; key < load.Keys && ctx.Err() == nil; key++ {
			load.pace(ctx, began, handed.Load())
			deleted := load.DeleteEvery > 0 && (key+round)%load.DeleteEvery == 0
			send(ctx, client, book, record(load.Topic, key, round, deleted, noise), func(error) {})
			handed.Add(1)
		}
	}
	return handed.Load()
}

// pace waits until it is time for the record after so many, if the load is bounded.
func (u Updates) pace(ctx context.Context, began time.Time, handed int64) {
	if u.PerSecond <= 0 {
		return
	}
	due := began.Add(time.Duration(handed) * time.Second / time.Duration(u.PerSecond))
	if left := time.Until(due); left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
}
