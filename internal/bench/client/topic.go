package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// answerTimeout limits each request before a run, and the wait for outstanding acknowledgments
// after it.
const answerTimeout = 30 * time.Second

// dueHeader is the key of a record header. Its value is the time at which the record was due: 8
// bytes, in nanoseconds since 1970. The record's own timestamp is not used for this, because it is
// in milliseconds and the broker may replace it.
const dueHeader = "heartwood-bench-sent"

// ErrNoTopic means that the topic does not exist and Create is false.
var ErrNoTopic = errors.New("no such topic")

// connect returns a Kafka client for the target's cluster.
func (t Target) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	all, err := t.Security.options()
	if err != nil {
		return nil, err
	}
	all = append(all, kgo.SeedBrokers(t.Bootstrap...), kgo.ClientID("heartwood-bench"),
		kgo.DialTimeout(5*time.Second), kgo.RetryTimeout(answerTimeout))
	client, err := kgo.NewClient(append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return client, nil
}

// ensure creates the topic if it does not exist and partitions is above 0.
func (t Target) ensure(ctx context.Context, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client, err := t.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("list topics of %v: %w", t.Bootstrap, err)
	}
	err = topics[t.Topic].Err
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	if partitions == 0 {
		return fmt.Errorf("topic %s: %w", t.Topic, ErrNoTopic)
	}
	if _, err := admin.CreateTopic(ctx, int32(partitions), -1, nil, t.Topic); err != nil &&
		!errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", t.Topic, err)
	}
	return nil
}

// span is a partition's offset range [first, end) at the start of a run.
type span struct{ first, end int64 }

// spans returns the spans of all partitions.
func (t Target) spans(ctx context.Context) (map[int32]span, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client, err := t.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	first, err := admin.ListStartOffsets(ctx, t.Topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets of %s: %w", t.Topic, err)
	}
	end, err := admin.ListEndOffsets(ctx, t.Topic)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets of %s: %w", t.Topic, err)
	}
	all := map[int32]span{}
	for partition, listedOffset := range end[t.Topic] {
		low, _ := first.Lookup(t.Topic, partition)
		all[partition] = span{low.Offset, listedOffset.Offset}
	}
	return all, nil
}
