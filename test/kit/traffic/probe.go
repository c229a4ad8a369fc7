package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
)

// Probes is a load that consists of one record for each partition. All records are sent at the same
// time.
type Probes struct {
	Topic      string
	Partitions int32  // number of the topic's partitions
	Load       uint64 // number of the load; part of the values
}

// Probe sends probes and waits until all of them are acknowledged or have failed. The client must
// use kgo.ManualPartitioner, because each record sets its partition. For each partition, Probe
// returns the time in milliseconds until the record was acknowledged.
func Probe(ctx context.Context, client *kgo.Client, book *ledger.Ledger,
	probes Probes) (map[int32]int64, error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var faults []error
	took, begin := map[int32]int64{}, time.Now()
	for partition := range probes.Partitions {
		r := &kgo.Record{
			Topic: probes.Topic, Partition: partition,
			Key:   fmt.Appendf(nil, "probe-%06d", partition),
			Value: fmt.Appendf(nil, "probe %d", probes.Load),
		}
		book.Sent(r)
		wait.Add(1)
		client.Produce(ctx, r, func(r *kgo.Record, err error) {
			defer wait.Done()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				faults = append(faults, fmt.Errorf("probe partition %d: %w", r.Partition, err))
				return
			}
			took[r.Partition] = time.Since(begin).Milliseconds()
			book.Acknowledged(r)
		})
	}
	wait.Wait()
	if len(faults) > 0 {
		return took, fmt.Errorf("%d probes failed, the first: %w", len(faults), faults[0])
	}
	return took, nil
}
