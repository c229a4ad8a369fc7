package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// OffsetFetch (key 9), versions 1-10.
//
//	2   all offsets of a group, error of the group
//	5   leader epochs (KIP-320)
//	6   flexible
//	7   stable offsets only (KIP-447): a partition for which an open transaction has a pending
//	    offset gets UNSTABLE_OFFSET_COMMIT
//	8   several groups (KIP-709)
//	9   member epoch of the consumer protocol (KIP-848)
//	10  topic ids (KIP-848)

// OffsetFetchShape describes the fields of the request (api.Shape).
var OffsetFetchShape = api.Shape{
	api.Text().To(7), api.Array(api.Text(), api.PlainArray(api.Fixed(4))).To(7),
	api.Array(api.Text(), api.Text().From(9), api.Fixed(4).From(9),
		api.Array(api.Text().To(9), api.Fixed(16).From(10), api.PlainArray(api.Fixed(4)))).From(8),
	api.Fixed(1).From(7),
}

// OffsetFetch handles an OffsetFetch request. Below version 8, a request contains a single group,
// in different fields. OffsetFetch converts such a request to the format of version 8, and the
// response back.
func (h *Handler) OffsetFetch(ctx context.Context, raw *wire.Request,
	req *kmsg.OffsetFetchRequest) wire.Reply {
	response := kmsg.NewPtrOffsetFetchResponse()
	response.Version = req.Version
	result := h.Outcome()
	if req.Version >= 8 {
		for i := range req.Groups {
			response.Groups = append(response.Groups,
				h.fetchGroup(ctx, raw, req, &req.Groups[i], &result))
		}
		return api.Reply(response, result)
	}
	requested := kmsg.NewOffsetFetchRequestGroup()
	requested.Group = req.Group
	if req.Topics != nil {
		requested.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range req.Topics {
		requested.Topics = append(requested.Topics,
			kmsg.OffsetFetchRequestGroupTopic{Topic: req.Topics[i].Topic,
				Partitions: req.Topics[i].Partitions})
	}
	answer := h.fetchGroup(ctx, raw, req, &requested, &result)
	response.ErrorCode = answer.ErrorCode
	for i := range answer.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = answer.Topics[i].Topic
		for _, p := range answer.Topics[i].Partitions {
			part := kmsg.NewOffsetFetchResponseTopicPartition()
			part.Partition, part.Offset, part.LeaderEpoch, part.Metadata,
				part.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}

// fetchGroup returns the response for one group. A partition without a committed offset has offset
// -1 and no error, even if the group does not exist.
func (h *Handler) fetchGroup(ctx context.Context, raw *wire.Request, req *kmsg.OffsetFetchRequest,
	requested *kmsg.OffsetFetchRequestGroup, result *api.Outcome) kmsg.OffsetFetchResponseGroup {
	img, version := h.Image(), req.Version
	answer := kmsg.NewOffsetFetchResponseGroup()
	answer.Group = requested.Group
	names, faults := h.offsetTopics(img, raw, version, requested)
	var partitions []group.TopicPartition
	if requested.Topics != nil {
		partitions = []group.TopicPartition{}
	}
	for i := range requested.Topics {
		for _, index := range requested.Topics[i].Partitions {
			if faults[i] == nil {
				partitions = append(partitions, group.TopicPartition{Topic: names[i], Partition: index})
			}
		}
	}
	to := group.Reader{Epoch: -1}
	if version >= 9 {
		to = group.Reader{Member: api.OrEmpty(requested.MemberID), Epoch: requested.MemberEpoch}
	}
	var found []fetchedOffset
	err := h.Authorize(raw, api.DescribeGroup, requested.Group)
	if err == nil {
		found, err = h.fetchOffsets(ctx, req, requested.Group, to, partitions)
	}
	answer.ErrorCode = result.Code(err)
	if requested.Topics == nil {
		answer.Topics = h.allOffsets(img, raw, version, found, result)
		return answer
	}
	if err != nil && version >= 2 {
		return answer
	}
	for i := range requested.Topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = requested.Topics[i].Topic, requested.Topics[i].TopicID
		for _, index := range requested.Topics[i].Partitions {
			part := offsetPart(noOffset(index, nil), result)
			switch {
			case err != nil:
				part.ErrorCode = answer.ErrorCode
			case faults[i] != nil:
				part.ErrorCode = result.Code(faults[i])
			default:
				part, found = offsetPart(found[0], result), found[1:]
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		answer.Topics = append(answer.Topics, topic)
	}
	return answer
}

// offsetTopics returns, for each topic in a request, the topic's name or the error for its offsets.
// Below version 10, topics are requested by name and do not have to exist.
func (h *Handler) offsetTopics(img *metadata.Image, raw *wire.Request, version int16,
	requested *kmsg.OffsetFetchRequestGroup) (names []string, faults []error) {
	names, faults = make([]string, len(requested.Topics)), make([]error, len(requested.Topics))
	for i := range requested.Topics {
		names[i] = requested.Topics[i].Topic
		if version >= 10 {
			names[i], faults[i] = api.TopicName(img, requested.Topics[i].TopicID)
		}
		if faults[i] == nil {
			faults[i] = h.Authorize(raw, api.DescribeTopic, names[i])
		}
	}
	return names, faults
}

// allOffsets returns all of a group's offsets, sorted by topic. It omits topics that the client may
// not describe. In version 10 and above, it also omits deleted topics, because they have no id.
func (h *Handler) allOffsets(img *metadata.Image, raw *wire.Request, version int16,
	found []fetchedOffset, result *api.Outcome) (topics []kmsg.OffsetFetchResponseGroupTopic) {
	for _, o := range found {
		known := img.Topic(o.Topic)
		if known == nil && version >= 10 || !h.May(raw, api.DescribeTopic, o.Topic) {
			continue
		}
		if n := len(topics); n == 0 || topics[n-1].Topic != o.Topic {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic = o.Topic
			if known != nil {
				topic.TopicID = known.ID
			}
			topics = append(topics, topic)
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, offsetPart(o, result))
	}
	return topics
}

// fetchedOffset is the result for one partition: an offset, or an error with offset -1.
type fetchedOffset struct {
	group.CommitOffset
	err error
}

func noOffset(index int32, err error) fetchedOffset {
	return fetchedOffset{group.CommitOffset{Partition: index,
		Offset: group.Offset{Offset: -1, LeaderEpoch: -1}}, err}
}

// fetchOffsets returns a group's committed offsets for the given partitions, or for all partitions
// if partitions is nil.
func (h *Handler) fetchOffsets(ctx context.Context, req *kmsg.OffsetFetchRequest, groupID string,
	to group.Reader, partitions []group.TopicPartition) ([]fetchedOffset, error) {
	committed, unstable, err := h.Groups.CommittedFor(ctx, groupID, to, partitions)
	if err != nil {
		return nil, err
	}
	found := make([]fetchedOffset, len(committed))
	img := h.Image()
	for i, o := range committed {
		o.LeaderEpoch = knownEpoch(img, o)
		if found[i] = (fetchedOffset{CommitOffset: o}); req.RequireStable && unstable[i] {
			found[i] = noOffset(o.Partition, group.ErrUnstable)
			found[i].Topic = o.Topic
		}
	}
	return found, nil
}

// knownEpoch returns a committed offset's leader epoch, or -1 (unknown) if it is above the
// partition's leader epoch. Such an offset was copied from another cluster, or was committed before
// the topic was re-created. A client that validates the offset would wait for the unknown epoch,
// without an error.
func knownEpoch(img *metadata.Image, o group.CommitOffset) int32 {
	_, p, err := img.Partition(metadata.PartitionRef{Topic: o.Topic, Partition: o.Partition})
	if err == nil && o.LeaderEpoch > p.LeaderEpoch {
		return -1
	}
	return o.LeaderEpoch
}

func offsetPart(o fetchedOffset,
	result *api.Outcome) kmsg.OffsetFetchResponseGroupTopicPartition {
	part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = o.Partition, o.Offset.Offset,
		o.LeaderEpoch, &o.Metadata
	part.ErrorCode = result.Code(o.err)
	return part
}
