//go:build dashboards

package dashboards

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/process"
)

// records writes records without compression to a partition. The function key returns their keys.
func (w *world) records(cluster, topic string, partition int32, n, size int,
	key func(i int) []byte) {
	w.t.Helper()
	c := w.client(cluster, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	failed, ctx := make(chan error, n), process.WithDeadline(w.t)
	for i := range n {
		c.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition,
			Key: key(i), Value: make([]byte, size)}, func(_ *kgo.Record, err error) { failed <- err })
	}
	for range n {
		if err := <-failed; err != nil {
			w.t.Fatalf("write to %s-%d: %v", topic, partition, err)
		}
	}
}

// begin writes a record in a transaction that stays open.
func (w *world) begin(cluster, topic string, timeout time.Duration) *kgo.Client {
	w.t.Helper()
	c := w.client(cluster, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic),
		kgo.TransactionTimeout(timeout))
	if err := c.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	record := &kgo.Record{Value: []byte("open")}
	if err := c.ProduceSync(process.WithDeadline(w.t), record).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// write writes a record without compression in each interval until ctx ends.
func (w *world) write(ctx context.Context, cluster, topic string, size int,
	interval time.Duration) {
	c := w.client(cluster, kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	for i := 0; ctx.Err() == nil; i++ {
		attempt, stop := context.WithTimeout(ctx, 2*time.Second)
		_ = c.ProduceSync(attempt, &kgo.Record{Key: fmt.Appendf(nil, "%d", i),
			Value: make([]byte, size)}).FirstErr() // error ignored: a full volume refuses records
		stop()
		pause(ctx, interval)
	}
}

// spread writes to all partitions of a topic in cluster single, in turn.
func (w *world) spread(ctx context.Context, topic string, partitions int32) {
	c := w.client("single", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	for ctx.Err() == nil {
		for partition := range partitions {
			c.TryProduce(ctx, &kgo.Record{Topic: topic, Partition: partition,
				Value: []byte("value")}, nil)
		}
		pause(ctx, 2*time.Second)
	}
}
