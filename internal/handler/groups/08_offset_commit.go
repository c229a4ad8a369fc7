package groups

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// OffsetCommit (key 8), versions 2-10.
//
//	5   retention time removed
//	6   leader epochs (KIP-320)
//	7   static members (KIP-345)
//	8   flexible
//	9   members of the consumer protocol, with their epoch (KIP-848)
//	10  topic ids (KIP-848)
//
// A response without an error means that the offset is stored on all in-sync replicas of the
// group's __consumer_offsets partition.

// OffsetCommitShape describes the fields of the request (api.Shape).
var OffsetCommitShape = api.Shape{
	api.Text(), api.Fixed(4), api.Text(), api.Text().From(7), api.Fixed(8).To(4),
	api.Array(api.Text().To(9), api.Fixed(16).From(10), api.Array(api.Fixed(4), api.Fixed(8),
		api.Fixed(4).From(6), api.Text())),
}

// OffsetCommit commits the offsets of existing partitions. Every other partition gets an error.
func (h *Handler) OffsetCommit(ctx context.Context, raw *wire.Request,
	req *kmsg.OffsetCommitRequest) wire.Reply {
	if err := h.Authorize(raw, api.ReadGroup, req.Group); err != nil {
		return h.offsetCommitResponse(req, nil, nil, err)
	}
	img := h.Image()
	commit := group.Commit{
		Group: req.Group, Member: req.MemberID, Instance: api.OrEmpty(req.InstanceID),
		Generation: req.Generation, NoEpochs: req.Version < 9,
	}
	expire := int64(-1)
	if req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		expire = time.Now().UnixMilli() + req.RetentionTimeMillis
	}
	var faults []error // one entry per partition in the request
	for i := range req.Topics {
		topic, err := h.committedTopic(raw, img, req.Version, &req.Topics[i])
		for _, p := range req.Topics[i].Partitions {
			fault := err
			if fault == nil && (p.Partition < 0 || int(p.Partition) >= len(topic.Partitions)) {
				fault = metadata.ErrTopicNotFound
			}
			if faults = append(faults, fault); fault != nil {
				continue
			}
			epoch := p.LeaderEpoch
			if req.Version < 6 {
				epoch = -1
			}
			commit.Offsets = append(commit.Offsets,
				group.CommitOffset{Topic: topic.Name, Partition: p.Partition, Offset: group.Offset{
					Offset: p.Offset, LeaderEpoch: epoch, Metadata: api.OrEmpty(p.Metadata),
					TopicID: topic.ID, ExpireMs: expire,
				}})
		}
	}
	errs, err := h.Groups.Commit(ctx, commit)
	return h.offsetCommitResponse(req, faults, errs, err)
}

// committedTopic returns the topic in a request, by its name or, from version 10 on, by its id. The
// client learns whether a name exists only if it is allowed to read the topic.
func (h *Handler) committedTopic(raw *wire.Request, img *metadata.Image, version int16,
	requested *kmsg.OffsetCommitRequestTopic) (*metadata.Topic, error) {
	if version >= 10 {
		if topic := img.TopicByID(requested.TopicID); topic != nil {
			return topic, h.Authorize(raw, api.ReadTopic, topic.Name)
		}
		return nil, api.ErrUnknownTopicID
	}
	if err := h.Authorize(raw, api.ReadTopic, requested.Topic); err != nil {
		return nil, err
	}
	if topic := img.Topic(requested.Topic); topic != nil {
		return topic, nil
	}
	return nil, metadata.ErrTopicNotFound
}

// offsetCommitResponse returns the response. faults contains one entry for each partition in the
// request: an error if the partition was not part of the commit, otherwise nil. It is nil if the
// client may not commit at all. errs contains, in the same order, the results of the commit for the
// partitions whose fault is nil. err is not nil if the whole commit failed.
func (h *Handler) offsetCommitResponse(req *kmsg.OffsetCommitRequest, faults, errs []error,
	err error) wire.Reply {
	response := kmsg.NewPtrOffsetCommitResponse()
	response.Version = req.Version
	result := h.Outcome()
	for i := range req.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for _, p := range req.Topics[i].Partitions {
			var fault error
			if len(faults) > 0 {
				fault, faults = faults[0], faults[1:]
			}
			switch {
			case fault != nil:
			case err != nil:
				fault = err
			default:
				fault, errs = errs[0], errs[1:]
			}
			part := kmsg.NewOffsetCommitResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, result.Code(fault)
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}
