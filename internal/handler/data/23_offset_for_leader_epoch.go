package data

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/wire"
)

// OffsetForLeaderEpoch (key 23), versions 2-4.
//
//	2  current leader epoch (KIP-320)
//	3  replica id
//	4  flexible
//
// The response contains the end offset of a leader epoch. If a consumer has read records of that
// epoch beyond the end offset, these records were lost, and the consumer continues at the end
// offset. Followers use Fetch for the same purpose.

// OffsetForEpochShape describes the fields of the request (api.Shape).
var OffsetForEpochShape = api.Shape{
	api.Fixed(4).From(3),
	api.Array(api.Text(), api.Array(api.Fixed(4), api.Fixed(4), api.Fixed(4))),
}

// OffsetForEpoch handles an OffsetForLeaderEpoch request. If the requested epoch is above all
// epochs in the log, the response contains -1 as epoch and end offset, and no error.
func (h *Handler) OffsetForEpoch(_ context.Context, raw *wire.Request,
	req *kmsg.OffsetForLeaderEpochRequest) wire.Reply {
	response := kmsg.NewPtrOffsetForLeaderEpochResponse()
	response.Version = req.Version
	result := h.Outcome()
	for i := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			requested := &req.Topics[i].Partitions[j]
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition = requested.Partition
			err := h.Authorize(raw, api.DescribeTopic, topic.Topic)
			if err == nil {
				var log *logstore.Log
				log, err = h.Replicas.Leader(api.PartitionRef(topic.Topic, requested.Partition),
					requested.CurrentLeaderEpoch)
				if err == nil {
					part.LeaderEpoch, part.EndOffset = log.EndOffsetFor(requested.LeaderEpoch)
				}
			}
			part.ErrorCode = result.Code(err)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}
