package data

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeProducers (key 61), version 0: lists the producers in a partition's log with their open
// transactions (KIP-664). As in Kafka, followers respond too, because `kafka-transactions
// find-hanging --broker-id` asks one broker about all its replicas.

// DescribeProducersShape describes the fields of the request (api.Shape).
var DescribeProducersShape = api.Shape{api.PartitionsOfTopics}

// DescribeProducers handles a DescribeProducers request (key 61).
func (h *Handler) DescribeProducers(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeProducersRequest) wire.Reply {
	response, result := kmsg.NewPtrDescribeProducersResponse(), h.Outcome()
	response.Version = req.Version
	for _, requested := range req.Topics {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = requested.Topic
		denied := h.Authorize(raw, api.ReadTopic, requested.Topic)
		for _, index := range requested.Partitions {
			part := kmsg.NewDescribeProducersResponseTopicPartition()
			part.Partition = index
			err := denied
			if err == nil {
				part.ActiveProducers, err = h.activeProducers(requested.Topic, index)
			}
			part.ErrorCode, part.ErrorMessage = result.Code(err), api.Message(err)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}

func (h *Handler) activeProducers(topic string,
	index int32) ([]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, error) {
	log, err := h.Replicas.Log(api.PartitionRef(topic, index))
	if err != nil {
		return nil, err
	}
	known := log.Producers().All()
	all := make([]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, 0, len(known))
	for _, p := range known {
		all = append(all, activeProducer(p))
	}
	return all, nil
}

func activeProducer(
	p logstore.ProducerInfo) kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	out := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
	out.ProducerID, out.ProducerEpoch = p.ID, int32(p.Epoch)
	out.LastSequence, out.LastTimestamp = p.LastSequence, p.LastSeen.UnixMilli()
	out.CoordinatorEpoch, out.CurrentTxnStartOffset = p.CoordinatorEpoch, p.TxnFirst
	return out
}
