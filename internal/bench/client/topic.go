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

// answerWait is how long a broker may take to answer before a run begins, and to acknowledge what
// is under way when it ends.
const answerWait = 30 * time.Second

// sentHeader is the record header with the time the record was due, 8 bytes of nanoseconds since
// 1970: the records' own timestamps are in milliseconds, and a topic may set them.
const sentHeader = "heartwood-bench-sent"

// ErrNoTopic is when the topic is not there and was not to be made.
var ErrNoTopic = errors.New("no such topic")

// connect returns a client of the target.
func (t Target) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(t.Bootstrap...), kgo.ClientID("heartwood-bench"),
		kgo.DialTimeout(5 * time.Second), kgo.RetryTimeout(answerWait),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

// ensure makes the topic when it is absent and partitions is above 0.
func (t Target) ensure(ctx context.Context, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	client, err := t.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("ask %v for its topics: %w", t.Bootstrap, err)
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

// span is the offsets of a partition when a run began: from first to before end.
type span struct{ first, end int64 }

// spans asks for those of all partitions.
func (t Target) spans(ctx context.Context) (map[int32]span, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
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
		return nil, fmt.Errorf("ask for the first offsets of %s: %w", t.Topic, err)
	}
	end, err := admin.ListEndOffsets(ctx, t.Topic)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the last offsets of %s: %w", t.Topic, err)
	}
	all := map[int32]span{}
	for partition, at := range end[t.Topic] {
		low, _ := first.Lookup(t.Topic, partition)
		all[partition] = span{low.Offset, at.Offset}
	}
	return all, nil
}
