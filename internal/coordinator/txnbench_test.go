package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/internaltopic"
)

// BenchmarkLoadTransactions loads a partition that contains 100,000 transactional ids, each with an
// open transaction that includes two partitions, as after a failover. The target is 1 s.
func BenchmarkLoadTransactions(b *testing.B) {
	const ids = 100_000
	broker := internaltopic.New(b, vfs.NewMem(), "/data", metadata.ID{1})
	broker.Topic.Name = metadata.TransactionsTopic
	var mu sync.Mutex
	next := int64(0)
	txns := NewTransactions(TransactionOptions{NodeID: internaltopic.Self,
		Replicas: broker.Replicas, Image: broker.Image, Await: broker.AwaitImage, Admin: broker,
		Config: transaction.Config{ProducerID: func() (int64, error) {
			mu.Lock()
			defer mu.Unlock()
			next++
			return next, nil
		}},
		Connect: func(context.Context, metadata.Broker) (Peer, error) {
			return nil, errNoLeader
		},
		WriteMarkers: func(_ context.Context, markers []PartitionMarker) []error {
			return make([]error, len(markers))
		}})
	broker.Coordinator = txns
	defer broker.Stop()
	await := func() { // await waits until the partition is loaded.
		for {
			if _, err := txns.Describe(b.Context(), "id-0"); err == nil ||
				errors.Is(err, transaction.ErrNotFound) {
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	broker.Lead(1, internaltopic.Self)
	await()
	fillTransactions(b, txns, ids)
	log, err := broker.Replicas.Leader(replica.PartitionID{Topic: metadata.TransactionsTopic}, 1)
	must(b, err)
	b.SetBytes(log.Stats().SizeBytes)
	began := cpuTime()
	b.ResetTimer()
	for epoch := range int32(b.N) {
		broker.Lead(epoch+2, internaltopic.Self)
		await()
	}
	b.StopTimer()
	b.ReportMetric((cpuTime()-began).Seconds()/float64(b.N), "cpu-s/op")
	all, err := txns.List(b.Context(), transaction.Filter{OpenFor: -1})
	if len(all) != ids || err != nil {
		b.Fatalf("%d transactional ids, %v", len(all), err)
	}
}

// fillTransactions begins a transaction for each of n transactional ids.
func fillTransactions(b *testing.B, txns *Transactions, n int) {
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := worker; i < n; i += 64 {
				id := fmt.Sprint("id-", i)
				p, err := txns.Init(b.Context(), transaction.Init{ID: id, Timeout: time.Minute,
					Expected: transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}})
				if err == nil {
					_, err = txns.Add(b.Context(), transaction.Add{ID: id, Producer: p, Version: 2,
						Partitions: []transaction.Partition{{Topic: "t", Index: int32(i % 50)},
							{Topic: "u", Index: int32(i % 30)}}})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
