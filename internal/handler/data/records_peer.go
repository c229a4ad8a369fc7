package data

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// A broker with damaged records reads these records from another in-sync replica, which does not
// have to be the leader. It fetches like a consumer (KIP-392). A fetch as a follower would report
// this broker's offsets, and only the leader accepts such a fetch.

// RecordsCall returns a Fetch request for a partition's records at and above an offset, with
// isolation level read_uncommitted. The response contains at most bytesMax bytes, or one larger
// batch.
func RecordsCall(topic metadata.ID, partition int32, offset int64, bytesMax int32) wire.Call {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch = followerFetchVersion, bytesMax, -1
	wanted := kmsg.NewFetchRequestTopicPartition()
	wanted.Partition, wanted.FetchOffset, wanted.PartitionMaxBytes = partition, offset, bytesMax
	requested := kmsg.NewFetchRequestTopic()
	requested.TopicID = topic
	requested.Partitions = append(requested.Partitions, wanted)
	req.Topics = append(req.Topics, requested)
	return wire.Call{Key: api.KeyFetch, Version: followerFetchVersion, Flexible: true,
		Append: req.AppendTo}
}

// errNoPartition means that the response does not contain the requested partition.
var errNoPartition = errors.New("the response does not contain the partition")

// DecodeRecords returns the batches in the response to a RecordsCall, which alias body.
func DecodeRecords(body []byte) ([]byte, error) {
	if err := fetchResponseShape.Check(followerFetchVersion, true, body); err != nil {
		return nil, err
	}
	answer := kmsg.FetchResponse{Version: followerFetchVersion}
	if err := answer.ReadFrom(body); err != nil {
		return nil, err
	}
	if answer.ErrorCode != 0 {
		return nil, peerError(answer.ErrorCode)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, errNoPartition
	}
	p := &answer.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil, peerError(p.ErrorCode)
	}
	return p.RecordBatches, nil
}
