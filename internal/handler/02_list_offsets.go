package handler

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// ListOffsets (key 2), versions 1-11.
//
//	1  one offset a partition      2  isolation level (KIP-98)       4  leader epoch (KIP-320)
//	6  flexible                    7  -3, largest timestamp (KIP-734)
//	8  -4, earliest local (KIP-405)   9  -5, latest tiered (KIP-1005)   11  -6, earliest pending upload (KIP-1023)
//
// There is no tiered storage: the earliest local offset is the earliest, and the tiered ones are
// unknown (-1), as with Kafka.

// The timestamps that stand for a place instead of a time, and the version that brought each.
const (
	timestampLatest          = -1
	timestampEarliest        = -2
	timestampMax             = -3
	timestampEarliestLocal   = -4
	timestampLatestTiered    = -5
	timestampEarliestPending = -6
)

var timestampSince = map[int64]int16{
	timestampLatest: 1, timestampEarliest: 1, timestampMax: 7, timestampEarliestLocal: 8,
	timestampLatestTiered:    9,
	timestampEarliestPending: 11,
}

// offsetUnknown is the answer when no record is what was asked for: not an error.
var offsetUnknown = logstore.TimestampOffset{Timestamp: -1, Offset: -1, LeaderEpoch: -1}

// listOffsetsShape is the request's fields (see shape.go).
var listOffsetsShape = shape{
	fixed(4), fixed(1).from(2),
	array(text(), array(fixed(4), fixed(4).from(4), fixed(8))),
	fixed(4).from(10),
}

// listOffsets answers partition by partition; an error of one does not touch the others.
func (h *Handler) listOffsets(_ context.Context, raw *wire.Request,
	req *kmsg.ListOffsetsRequest) wire.Reply {
	response := kmsg.NewPtrListOffsetsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	for i := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			asked := &req.Topics[i].Partitions[j]
			at, err := h.offsetAt(raw, req, topic.Topic, asked)
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition = asked.Partition
			part.ErrorCode = result.code(err)
			part.Timestamp, part.Offset, part.LeaderEpoch = at.Timestamp, at.Offset, at.LeaderEpoch
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return reply(response, result)
}

// offsetAt answers for one partition. The end is the high watermark, or the last stable offset for
// readers of committed records: an offset above could be told of and then be gone, or could not be
// fetched. Where no record fits, it is offsetUnknown and nil.
func (h *Handler) offsetAt(raw *wire.Request, req *kmsg.ListOffsetsRequest, topic string,
	asked *kmsg.ListOffsetsRequestTopicPartition) (logstore.TimestampOffset, error) {
	if err := h.authorize(raw, describeTopic, topic); err != nil {
		return offsetUnknown, err
	}
	if since, known := timestampSince[asked.Timestamp]; asked.Timestamp < 0 &&
		(!known || req.Version < since) {
		return offsetUnknown, fmt.Errorf("%w: timestamp %d in version %d", errUnsupportedVersion,
			asked.Timestamp, req.Version)
	}
	id := replica.PartitionID{Topic: topic, Index: asked.Partition}
	log, err := h.opts.Replicas.Leader(id, asked.CurrentLeaderEpoch)
	if err != nil {
		return offsetUnknown, err
	}
	if asked.Timestamp == timestampLatest || asked.Timestamp >= 0 {
		// A new leader that does not know yet how far its predecessor came would tell an end that
		// was passed already (KIP-207).
		if err := h.opts.Replicas.CheckEndOffset(id); errors.Is(err,
			replica.ErrOffsetNotAvailable) &&
			req.Version < 5 {
			return offsetUnknown, errLeaderNotAvailable
		} else if err != nil {
			return offsetUnknown, err
		}
	}
	limit := log.HighWatermark()
	if req.IsolationLevel == 1 {
		limit = log.LastStable()
	}
	at, ok := offsetUnknown, true
	switch asked.Timestamp {
	case timestampLatest:
		at = logstore.TimestampOffset{Timestamp: -1, Offset: limit,
			LeaderEpoch: h.leaderEpoch(topic, asked.Partition)}
	case timestampEarliest, timestampEarliestLocal:
		start := log.LogStart()
		at = logstore.TimestampOffset{Timestamp: -1, Offset: start, LeaderEpoch: log.EpochAt(start)}
	case timestampLatestTiered, timestampEarliestPending:
	case timestampMax: // as in Kafka: none, where the record that has it is above the limit
		at, ok, err = log.MaxTimestamp()
		ok = ok && at.Offset < limit
	default:
		at, ok, err = log.OffsetForTimestamp(asked.Timestamp, limit)
	}
	if err != nil || !ok {
		return offsetUnknown, err
	}
	return at, nil
}

// leaderEpoch is the partition's epoch now: that of the record which will come at the end of its
// log.
func (h *Handler) leaderEpoch(topic string, index int32) int32 {
	if t := h.opts.Image().Topic(topic); t != nil && int(index) < len(t.Partitions) {
		return t.Partitions[index].LeaderEpoch
	}
	return -1 // deleted this moment
}
