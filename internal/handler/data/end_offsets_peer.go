package data

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Group coordinators request end offsets from partition leaders to compute the lag of groups. They
// send ListOffsets for the latest offset with isolation level read_uncommitted. The result is the
// high watermark.

// endOffsetsVersion is the first ListOffsets version with the flexible encoding.
const endOffsetsVersion = 6

// EndOffsetsMax is the maximum number of partitions in one EndOffsetsCall.
const EndOffsetsMax = api.ElementsMax / 4

// endOffsetsResponseShape describes the fields of the response to a broker.
var endOffsetsResponseShape = api.Shape{
	api.Fixed(4),
	api.Array(api.Text(), api.Array(api.Fixed(4), api.Fixed(2), api.Fixed(8), api.Fixed(8),
		api.Fixed(4))),
}

// EndOffset identifies a requested end offset: the partition, and its leader epoch in the sender's
// metadata image.
type EndOffset struct {
	ID          replica.PartitionID
	LeaderEpoch int32
}

// EndOffsetsCall returns a ListOffsets request for at most EndOffsetsMax partitions. requested must
// be sorted by topic.
func EndOffsetsCall(requested []EndOffset) wire.Call {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = endOffsetsVersion, -1
	for _, asked := range requested {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != asked.ID.Topic {
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = asked.ID.Topic
			req.Topics = append(req.Topics, topic)
		}
		topic := &req.Topics[len(req.Topics)-1]
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.CurrentLeaderEpoch = asked.ID.Index, asked.LeaderEpoch
		partition.Timestamp = timestampLatest
		topic.Partitions = append(topic.Partitions, partition)
	}
	return wire.Call{Key: api.KeyListOffsets, Version: endOffsetsVersion, Flexible: true,
		Append: req.AppendTo}
}

// DecodeEndOffsets returns the end offsets in the response to an EndOffsetsCall. It omits
// partitions with an error, for example because the broker does not lead them in the requested
// epoch.
func DecodeEndOffsets(body []byte) (map[replica.PartitionID]int64, error) {
	if err := endOffsetsResponseShape.Check(endOffsetsVersion, true, body); err != nil {
		return nil, err
	}
	answer := kmsg.ListOffsetsResponse{Version: endOffsetsVersion}
	if err := answer.ReadFrom(body); err != nil {
		return nil, err
	}
	ends := map[replica.PartitionID]int64{}
	for i := range answer.Topics {
		for _, p := range answer.Topics[i].Partitions {
			if p.ErrorCode == 0 {
				ends[replica.PartitionID{Topic: answer.Topics[i].Topic, Index: p.Partition}] = p.Offset
			}
		}
	}
	return ends, nil
}
