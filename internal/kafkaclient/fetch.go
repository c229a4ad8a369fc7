package kafkaclient

import (
	"cmp"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch reads one partition's records from its leader. franz-go's consumer is not used. It does not
// report that it has passed offsets whose records the cleaner has removed, so it cannot tell where
// a span ends.
type Fetch struct {
	Topic             kadm.TopicDetail
	Partition         int32
	Offset            int64
	Wait              time.Duration // maximum wait if there are no records
	BytesMax          int32
	PartitionBytesMax int32
	Committed         bool // true: no records of open and aborted transactions
	Decompressor      kgo.Decompressor
}

// Do sends the request. It returns the records, the partition's error, and the offset after the
// last batch.
func (f *Fetch) Do(ctx context.Context, client *kgo.Client) (fetched kgo.FetchPartition, next int64,
	err error) {
	leader := f.Topic.Partitions[f.Partition].Leader
	answer, err := client.Broker(int(leader)).RetriableRequest(ctx, f.request())
	if err != nil {
		return kgo.FetchPartition{}, f.Offset, err
	}
	response := answer.(*kmsg.FetchResponse)
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return kgo.FetchPartition{}, f.Offset,
			cmp.Or(kerr.ErrorForCode(response.ErrorCode), error(kerr.UnknownServerError))
	}
	fetched, next = kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: f.Offset,
		IsolationLevel: Isolation(f.Committed), Topic: f.Topic.Topic, Partition: f.Partition},
		&response.Topics[0].Partitions[0], f.Decompressor, nil)
	return fetched, next, nil
}

func (f *Fetch) request() *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis = int32(f.Wait.Milliseconds())
	request.MinBytes, request.MaxBytes = 1, f.BytesMax
	if f.Committed {
		request.IsolationLevel = 1
	}
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset = f.Partition, f.Offset
	partition.PartitionMaxBytes = f.PartitionBytesMax
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = f.Topic.Topic, [16]byte(f.Topic.ID)
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	return request
}

// Isolation returns franz-go's isolation level.
func Isolation(committed bool) kgo.IsolationLevel {
	if committed {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}
