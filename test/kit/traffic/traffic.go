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

// fillerBytes is the number of random bytes in each value. They make values incompressible. So
// records fill segments with any codec.
const fillerBytes = 100

// Updates is a load in rounds. Each round writes every key once. Produce deletes every
// DeleteEvery-th key in the last round. Stream has no last round. Instead, it deletes different
// keys in each round, so keys are deleted, written and deleted again.
type Updates struct {
	Topic       string
	Keys        int
	Rounds      int    // number of rounds of Produce; the first round number of Stream
	DeleteEvery int    // 0: no key is deleted
	PerSecond   int    // limit of Stream in records per second; 0: unlimited
	Seed        uint64 // seed of the random bytes in the values
}

// Produce sends the load, and waits until all records are acknowledged or one record has failed.
func Produce(ctx context.Context, client *kgo.Client, book *ledger.Ledger, load Updates) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	random := rand.New(rand.NewPCG(load.Seed, 0))
	for round := range load.Rounds {
		for key := range load.Keys {
			deleted := load.DeleteEvery > 0 && round == load.Rounds-1 && key%load.DeleteEvery == 0
			send(ctx, client, book, record(load.Topic, key, round, deleted, random), cancel)
		}
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("produce to %s: %w", load.Topic, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// send produces a record, and calls the function failed if the record is not acknowledged.
func send(ctx context.Context, client *kgo.Client, book *ledger.Ledger, r *kgo.Record,
	failed context.CancelCauseFunc) {
	book.Sent(r)
	client.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			failed(fmt.Errorf("produce key %s: %w", r.Key, err))
			return
		}
		book.Acknowledged(r)
	})
}

func record(topic string, key, round int, deleted bool, random *rand.Rand) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%06d", key)}
	if deleted {
		return r
	}
	filler := make([]byte, fillerBytes)
	for i := range filler {
		filler[i] = byte(random.Uint32())
	}
	r.Value = fmt.Appendf(nil, "round %d of key %d: %s", round, key, hex.EncodeToString(filler))
	return r
}

// Stream sends updates, round after round, until ctx ends. It does not wait for outstanding
// responses, so the ledger can contain sent records that are never acknowledged. It returns the
// number of sent records.
func Stream(ctx context.Context, client *kgo.Client, book *ledger.Ledger, load Updates) int64 {
	random := rand.New(rand.NewPCG(load.Seed, 1))
	var sent atomic.Int64
	begin := time.Now()
	for round := load.Rounds; ctx.Err() == nil; round++ {
		for key := 0; key < load.Keys && ctx.Err() == nil; key++ {
			load.pace(ctx, begin, sent.Load())
			deleted := load.DeleteEvery > 0 && (key+round)%load.DeleteEvery == 0
			send(ctx, client, book, record(load.Topic, key, round, deleted, random), func(error) {})
			sent.Add(1)
		}
	}
	return sent.Load()
}

// pace waits until the next record is due, if PerSecond limits the load.
func (u Updates) pace(ctx context.Context, begin time.Time, sent int64) {
	if u.PerSecond <= 0 {
		return
	}
	due := begin.Add(time.Duration(sent) * time.Second / time.Duration(u.PerSecond))
	if left := time.Until(due); left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
}
