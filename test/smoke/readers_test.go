package smoke

import (
	"context"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// TestReadersSeeWholeBatchesWhileSegmentsAreReplaced reads a topic again and again while the
// cleaner replaces and deletes the segment files from which responses are sent. If a response
// contained a truncated range, or a range from a wrong file, franz-go would report a wrong
// checksum. Each partition's offsets must increase.
func TestReadersSeeWholeBatchesWhileSegmentsAreReplaced(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, detailed, tickets)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	ctx, stop := context.WithCancel(process.WithDeadline(t))
	defer stop()
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for pass := 0; ctx.Err() == nil; pass++ {
				readSome(ctx, t, bootstrap, 1000+pass*977)
			}
		})
	}
	load := traffic.Updates{Topic: "tickets", Keys: 2000, Rounds: 15, Seed: 5}
	if err := traffic.Produce(ctx, producer(t, bootstrap), ledger.New(), load); err != nil {
		t.Fatal(err)
	}
	waitForCleans(t, s)
	stop()
	readers.Wait()
}

// readSome reads the topic from the beginning until it has read count records or ctx ends.
func readSome(ctx context.Context, t *testing.T, bootstrap []string, count int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics("tickets"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	next := map[int32]int64{}
	for count > 0 && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, partition int32, err error) {
			if ctx.Err() == nil {
				t.Errorf("partition %d: %v", partition, err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < next[r.Partition] {
				t.Errorf("partition %d: offset %d after %d", r.Partition, r.Offset,
					next[r.Partition]-1)
			}
			next[r.Partition] = r.Offset + 1
			count--
		})
	}
}
