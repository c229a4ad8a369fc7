package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produceTimeout limits the time until a record is acknowledged.
const produceTimeout = 10 * time.Second

// AnyPartition selects the partition by the hash of the record's key, as Kafka's default
// partitioner does.
const AnyPartition = -1

// Produce appends a record to its partition or, with AnyPartition, to the partition that its key
// selects. It waits until all in-sync replicas have the record, and returns the partition and the
// offset. If it fails without a response from the broker, the record may nevertheless have been
// appended.
func (c *Client) Produce(ctx context.Context, topic string, r Record) (partition int32,
	offset int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	record := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if err := c.client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return 0, 0, fmt.Errorf("produce to topic %s: %w", topic, err)
	}
	return record.Partition, record.Offset, nil
}

// chosenPartitioner uses the record's partition or, with AnyPartition, the partition that the
// record's key selects.
type chosenPartitioner struct{ byKey kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (p chosenPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return chosenOfTopic{p.byKey.ForTopic(topic)}
}

type chosenOfTopic struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner.
func (p chosenOfTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != AnyPartition || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (p chosenOfTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition != AnyPartition {
		return int(r.Partition)
	}
	return p.TopicPartitioner.Partition(r, n)
}
