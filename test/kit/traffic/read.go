package traffic

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
)

// fenceKey is the key of fence records, which mark the end of a partition.
const fenceKey = "traffic-fence"

// ReadAll reads all partitions of a topic, from their start to their end at the time of the call.
//
// A reader cannot recognize the end by the end offset, because the cleaner may have removed the
// last records before it. So ReadAll produces a fence record to each partition and reads up to this
// record. It omits all fence records from the result. The options configure the client.
func ReadAll(ctx context.Context, bootstrap []string, topic string,
	options ...kgo.Opt) ([]*kgo.Record, error) {
	client, err := kgo.NewClient(append(slices.Clip(options),
		kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	defer client.Close()
	fences, err := fence(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	return readUntil(ctx, client, fences)
}

// fence produces a fence record to each partition and returns the offsets of these records, by
// partition.
func fence(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the partitions of %s: %w", topic, err)
	}
	var records []*kgo.Record
	for partition := range topics[topic].Partitions {
		records = append(records,
			&kgo.Record{Topic: topic, Partition: partition, Key: []byte(fenceKey),
				Value: []byte("here")})
	}
	fences := map[int32]int64{}
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return nil, fmt.Errorf("produce a fence to partition %d of %s: %w",
				result.Record.Partition, topic, result.Err)
		}
		fences[result.Record.Partition] = result.Record.Offset
	}
	return fences, nil
}

// readUntil reads until it has reached the offset in fences for every partition.
func readUntil(ctx context.Context, client *kgo.Client, fences map[int32]int64) ([]*kgo.Record,
	error) {
	var read []*kgo.Record
	for len(fences) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read to the fences %v: %w", fences, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if fence, ok := fences[r.Partition]; ok && r.Offset >= fence {
				delete(fences, r.Partition)
			}
			if string(r.Key) != fenceKey {
				read = append(read, r)
			}
		})
	}
	return read, nil
}

// VerifyCompacted reads a whole compacted topic and compares it with the ledger. It returns the
// number of records in the topic.
func VerifyCompacted(ctx context.Context, bootstrap []string, topic string,
	book *ledger.Ledger) (int, error) {
	read, err := ReadAll(ctx, bootstrap, topic)
	if err != nil {
		return 0, err
	}
	return len(read), book.Check(read)
}

// VerifyComplete is like VerifyCompacted, for a topic from which no record is removed: no
// acknowledged record must be missing, and a key's records must be in the order in which they were
// sent.
func VerifyComplete(ctx context.Context, bootstrap []string, topic string,
	book *ledger.Ledger) (int, error) {
	read, err := ReadAll(ctx, bootstrap, topic)
	if err != nil {
		return 0, err
	}
	return len(read), book.CheckComplete(read)
}
