package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

const (
	// fetchBytesMax is the number of bytes of one fetch request.
	fetchBytesMax = 8 << 20
	// retryInterval is the time between attempts while a partition has no leader.
	retryInterval = 250 * time.Millisecond
)

// Tail says which records to read.
type Tail struct {
	Topic      string
	Partitions []int32 // empty: all
	// Last is the number of offsets before the end of each partition from which on records are
	// read. A compacted partition has fewer records than offsets. FromStart reads all records
	// instead.
	Last      int64
	FromStart bool
	// Follow reads further records until the context ends. Otherwise Read ends at the end that the
	// partitions had when it began.
	Follow bool
	// Committed omits records of open and aborted transactions.
	Committed bool
}

func (t Tail) isolation() kgo.IsolationLevel {
	if t.Committed {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// span is a range of offsets of a partition: from begin up to, but not including, end.
type span struct{ begin, end int64 }

// Read reads records, one partition after the other up to their ends, and then with Follow the
// later ones of all partitions. It passes each record to function each and stops if that fails.
// With Follow it returns nil when ctx ends.
func Read(ctx context.Context, o kafkaclient.Options, tail Tail, each func(Record) error) error {
	client, err := kafkaclient.Connect(ctx, o, kgo.FetchIsolationLevel(tail.isolation()))
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
		ends[partition] = kgo.NewOffset().At(s.end)
		if err := readSpan(ctx, client, tail, partition, s, each); err != nil {
			return fmt.Errorf("read %s-%d: %w", tail.Topic, partition, err)
		}
	}
	if !tail.Follow {
		return nil
	}
	return follow(ctx, client, tail.Topic, ends, each)
}

// spans returns the offsets to read before following, by partition.
func spans(ctx context.Context, admin *kadm.Client, tail Tail) (map[int32]span, error) {
	starts, err := admin.ListStartOffsets(ctx, tail.Topic)
	if err != nil {
		return nil, fmt.Errorf("list the start offsets of topic %s: %w", tail.Topic, err)
	}
	list := admin.ListEndOffsets
	if tail.Committed {
		list = admin.ListCommittedOffsets
	}
	ends, err := list(ctx, tail.Topic)
	if err != nil {
		return nil, fmt.Errorf("list the end offsets of topic %s: %w", tail.Topic, err)
	}
	spans := map[int32]span{}
	for partition, end := range ends[tail.Topic] {
		if len(tail.Partitions) > 0 && !slices.Contains(tail.Partitions, partition) {
			continue
		}
		start := starts[tail.Topic][partition]
		for _, fault := range []error{end.Err, start.Err} {
			if fault != nil {
				return nil, fmt.Errorf("list the offsets of %s-%d: %w", tail.Topic, partition, fault)
			}
		}
		s := span{start.Offset, end.Offset}
		if !tail.FromStart {
			s.begin = max(s.begin, s.end-tail.Last)
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

// readSpan reads the records of a span. It requests them from the leader itself: a consumer does
// not report that it has passed offsets whose records were removed by the cleaner, so it cannot say
// when a span has ended.
func readSpan(ctx context.Context, client *kgo.Client, tail Tail, partition int32, s span,
	each func(Record) error) error {
	for offset := s.begin; offset < s.end; {
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
			if r.Offset >= s.end {
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

// fetch requests records of a partition from an offset on. It returns the next offset to request.
func fetch(ctx context.Context, client *kgo.Client, tail Tail, partition int32,
	offset int64) ([]*kgo.Record, int64, error) {
	topics, err := kadm.NewClient(client).Metadata(ctx, tail.Topic)
	if err != nil {
		return nil, 0, fmt.Errorf("request the leader: %w", err)
	}
	detail := topics.Topics[tail.Topic]
	placed := detail.Partitions[partition]
	if err := cmpErr(detail.Err, placed.Err); err != nil {
		return nil, 0, err
	}
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = 500, 1, fetchBytesMax
	if tail.Committed {
		request.IsolationLevel = 1
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, offset, fetchBytesMax
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = tail.Topic, [16]byte(detail.ID)
	topic.Partitions = append(topic.Partitions, part)
	request.Topics = append(request.Topics, topic)
	answer, err := client.Broker(int(placed.Leader)).RetriableRequest(ctx, request)
	if err != nil {
		return nil, 0, err
	}
	response := answer.(*kmsg.FetchResponse)
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return nil, 0, cmpErr(kerr.ErrorForCode(response.ErrorCode), kerr.UnknownServerError)
	}
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: offset,
		IsolationLevel: tail.isolation(), Topic: tail.Topic, Partition: partition},
		&response.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return fetched.Records, next, fetched.Err
}

// cmpErr returns the first error that is not nil.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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
