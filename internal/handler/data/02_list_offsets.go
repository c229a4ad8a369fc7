package data

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// ListOffsets (key 2), versions 1-11.
//
//	1   one offset for each partition
//	2   isolation level (KIP-98)
//	4   leader epoch (KIP-320)
//	6   flexible
//	7   -3, largest timestamp (KIP-734)
//	8   -4, earliest local (KIP-405)
//	9   -5, latest tiered (KIP-1005)
//	11  -6, earliest pending upload (KIP-1023)
//
// Heartwood has no tiered storage. So the earliest local offset is the earliest offset, and the
// tiered storage offsets are unknown (-1), as in Kafka without tiered storage.

// Negative timestamps, which stand for positions in the log.
const (
	timestampLatest          = -1
	timestampEarliest        = -2
	timestampMax             = -3
	timestampEarliestLocal   = -4
	timestampLatestTiered    = -5
	timestampEarliestPending = -6
)

// timestampSince maps negative timestamps to the first ListOffsets version that supports them.
var timestampSince = map[int64]int16{
	timestampLatest: 1, timestampEarliest: 1, timestampMax: 7, timestampEarliestLocal: 8,
	timestampLatestTiered:    9,
	timestampEarliestPending: 11,
}

// offsetUnknown is the result if no record matches, which is not an error.
var offsetUnknown = logstore.TimestampOffset{Timestamp: -1, Offset: -1, LeaderEpoch: -1}

// ListOffsetsShape describes the fields of the request (api.Shape).
var ListOffsetsShape = api.Shape{
	api.Fixed(4), api.Fixed(1).From(2),
	api.Array(api.Text(), api.Array(api.Fixed(4), api.Fixed(4).From(4), api.Fixed(8))),
	api.Fixed(4).From(10),
}

// ListOffsets handles a ListOffsets request. An error in one partition does not affect the others.
func (h *Handler) ListOffsets(_ context.Context, raw *wire.Request,
	req *kmsg.ListOffsetsRequest) wire.Reply {
	response := kmsg.NewPtrListOffsetsResponse()
	response.Version = req.Version
	result := h.Outcome()
	for i := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			requested := &req.Topics[i].Partitions[j]
			found, err := h.offsetAt(raw, req, topic.Topic, requested)
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition = requested.Partition
			part.ErrorCode = result.Code(err)
			part.Timestamp, part.Offset, part.LeaderEpoch = found.Timestamp, found.Offset, found.LeaderEpoch
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}

// offsetAt returns the offset for one partition. If no record matches, it returns offsetUnknown and
// no error. Only records below the high watermark match; for read_committed, only records below the
// last stable offset. Records above these limits might be lost, or cannot be fetched yet.
func (h *Handler) offsetAt(raw *wire.Request, req *kmsg.ListOffsetsRequest, topic string,
	requested *kmsg.ListOffsetsRequestTopicPartition) (logstore.TimestampOffset, error) {
	// Brokers need no permission on the topic, because group coordinators request the end offsets of
	// all topics to compute the lag of groups. The certificate proves that the client is a broker of
	// this cluster.
	if s := raw.Session; s == nil || s.Role != wire.RoleBroker {
		if err := h.Authorize(raw, api.DescribeTopic, topic); err != nil {
			return offsetUnknown, err
		}
	}
	if since, known := timestampSince[requested.Timestamp]; requested.Timestamp < 0 &&
		(!known || req.Version < since) {
		return offsetUnknown, fmt.Errorf("%w: timestamp %d in version %d", api.ErrUnsupportedVersion,
			requested.Timestamp, req.Version)
	}
	id := replica.PartitionID{Topic: topic, Index: requested.Partition}
	log, err := h.Replicas.Leader(id, requested.CurrentLeaderEpoch)
	if err != nil {
		return offsetUnknown, err
	}
	if requested.Timestamp == timestampLatest || requested.Timestamp >= 0 {
		// A new leader may not know its predecessor's high watermark yet, so it could return an end
		// offset below one that a client has already received (KIP-207).
		if err := h.Replicas.CheckEndOffset(id); errors.Is(err,
			replica.ErrOffsetNotAvailable) &&
			req.Version < 5 {
			return offsetUnknown, api.ErrLeaderNotAvailable
		} else if err != nil {
			return offsetUnknown, err
		}
	}
	limit := log.HighWatermark()
	if req.IsolationLevel == 1 {
		limit = log.LastStable()
	}
	found, ok := offsetUnknown, true
	switch requested.Timestamp {
	case timestampLatest:
		found = logstore.TimestampOffset{Timestamp: -1, Offset: limit,
			LeaderEpoch: h.leaderEpoch(topic, requested.Partition)}
	case timestampEarliest, timestampEarliestLocal:
		start := log.LogStart()
		found = logstore.TimestampOffset{Timestamp: -1, Offset: start, LeaderEpoch: log.EpochAt(start)}
	case timestampLatestTiered, timestampEarliestPending:
	case timestampMax: // as in Kafka, unknown if the record is at or above the limit
		found, ok, err = log.Timestamps().Largest()
		ok = ok && found.Offset < limit
	default:
		found, ok, err = log.Timestamps().First(requested.Timestamp, limit)
	}
	if err != nil || !ok {
		return offsetUnknown, err
	}
	return found, nil
}

// leaderEpoch returns a partition's current leader epoch. The next appended record gets this epoch.
func (h *Handler) leaderEpoch(topic string, index int32) int32 {
	if t := h.Image().Topic(topic); t != nil && int(index) < len(t.Partitions) {
		return t.Partitions[index].LeaderEpoch
	}
	return -1 // the topic was deleted in the meantime
}
