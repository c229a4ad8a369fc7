package kafka

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

const (
	// fetchBytesMax is the maximum number of bytes in one fetch response.
	fetchBytesMax = 8 << 20
	fetchWait     = 500 * time.Millisecond
	// retryInterval is the time between attempts while a partition has no leader.
	retryInterval = 250 * time.Millisecond
)

// Tail describes which records to read.
type Tail struct {
	Topic      string
	Partitions []int32 // empty: all partitions
	// Last is the number of offsets to read at the end of each partition. A compacted partition has
	// fewer records than offsets. FromStart reads all records instead.
	Last      int64
	FromStart bool
	// Follow makes Read continue with new records until ctx ends. Otherwise Read ends at the
	// partitions' end offsets from its beginning.
	Follow bool
	// Committed excludes records of open and aborted transactions.
	Committed bool
}

// Read reads one partition after the other up to its end. With Follow, it then reads new records of
// all partitions, and returns nil when ctx ends. Read calls each for every record, and stops if
// each returns an error.
func Read(ctx context.Context, o kafkaclient.Options, tail Tail, each func(Record) error) error {
	client, err := kafkaclient.Connect(ctx, o,
		kgo.FetchIsolationLevel(kafkaclient.Isolation(tail.Committed)))
	if err != nil {
		return err
	}
	defer client.Close()
	spans, err := spans(ctx, kadm.NewClient(client), tail)
	if err != nil {
		return err
	}
	ends := map[int32]kgo.Offset{}
	for _, partition := range slices.Sorted(maps.Keys(spans)) {
		s := spans[partition]
		ends[partition] = kgo.NewOffset().At(s.End)
		if err := readSpan(ctx, client, tail, partition, s, each); err != nil {
			return fmt.Errorf("read %s-%d: %w", tail.Topic, partition, err)
		}
	}
	if !tail.Follow {
		return nil
	}
	return follow(ctx, client, tail.Topic, ends, each)
}

// spans returns the offset ranges to read before following, by partition.
func spans(ctx context.Context, admin *kadm.Client, tail Tail) (map[int32]kafkaclient.Span, error) {
	bounds, err := kafkaclient.Ask{Committed: tail.Committed}.List(ctx, admin, tail.Topic)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", tail.Topic, err)
	}
	spans := map[int32]kafkaclient.Span{}
	for partition := range bounds.Ends[tail.Topic] {
		if len(tail.Partitions) > 0 && !slices.Contains(tail.Partitions, partition) {
			continue
		}
		s, err := bounds.Span(tail.Topic, partition)
		if err != nil {
			return nil, fmt.Errorf("list the offsets of %s-%d: %w", tail.Topic, partition, err)
		}
		if !tail.FromStart {
			s.Begin = max(s.Begin, s.End-tail.Last)
		}
		spans[partition] = s
	}
	for _, partition := range tail.Partitions {
		if _, exists := spans[partition]; !exists {
			return nil, fmt.Errorf("topic %s has no partition %d", tail.Topic, partition)
		}
	}
	return spans, nil
}

// readSpan reads the records in an offset range.
func readSpan(ctx context.Context, client *kgo.Client, tail Tail, partition int32,
	s kafkaclient.Span, each func(Record) error) error {
	for offset := s.Begin; offset < s.End; {
		fetched, next, err := fetch(ctx, client, tail, partition, offset)
		switch {
		case kerr.IsRetriable(err):
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(retryInterval):
			}
			continue
		case err != nil:
			return err
		}
		for _, r := range fetched {
			if r.Offset >= s.End {
				return nil
			}
			if err := each(newRecord(r)); err != nil {
				return err
			}
		}
		offset = next
	}
	return nil
}

// fetch requests a partition's records from an offset on. It returns the next offset to request.
func fetch(ctx context.Context, client *kgo.Client, tail Tail, partition int32,
	offset int64) ([]*kgo.Record, int64, error) {
	topics, err := kadm.NewClient(client).Metadata(ctx, tail.Topic)
	if err != nil {
		return nil, 0, fmt.Errorf("request the leader: %w", err)
	}
	detail := topics.Topics[tail.Topic]
	if err := cmp.Or(detail.Err, detail.Partitions[partition].Err); err != nil {
		return nil, 0, err
	}
	request := kafkaclient.Fetch{Topic: detail, Partition: partition, Offset: offset,
		Wait: fetchWait, BytesMax: fetchBytesMax, PartitionBytesMax: fetchBytesMax,
		Committed: tail.Committed, Decompressor: kgo.DefaultDecompressor()}
	fetched, next, err := request.Do(ctx, client)
	if err != nil {
		return nil, 0, err
	}
	return fetched.Records, next, fetched.Err
}

// follow reads all records from the given offsets on, until ctx ends.
func follow(ctx context.Context, client *kgo.Client, topic string, from map[int32]kgo.Offset,
	each func(Record) error) error {
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read topic %s: %w", topic, err)
		}
		for r := range fetches.RecordsAll() {
			if err := each(newRecord(r)); err != nil {
				return err
			}
		}
	}
}
