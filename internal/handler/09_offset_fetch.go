package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// OffsetFetch (key 9), versions 1-10.
//
//	2  all offsets of a group, error of the group     5  leader epochs (KIP-320)     6  flexible
//	7  only what no open transaction may change (KIP-447): there are none     8  several groups (KIP-709)
//	9  a member of the consumer protocol tells its epoch (KIP-848)     10  topic ids (KIP-848)

// offsetFetchShape is the request's fields (see shape.go).
var offsetFetchShape = shape{
	text().to(7), array(text(), plainArray(fixed(4))).to(7),
	array(text(), text().from(9), fixed(4).from(9),
		array(text().to(9), fixed(16).from(10), plainArray(fixed(4)))).from(8),
	fixed(1).from(7),
}

// offsetFetch answers group by group. Versions before 8 ask for one, in other fields; they are put
// into the newer form and back.
func (h *Handler) offsetFetch(ctx context.Context, raw *wire.Request,
	req *kmsg.OffsetFetchRequest) wire.Reply {
	response := kmsg.NewPtrOffsetFetchResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	if req.Version >= 8 {
		for i := range req.Groups {
			response.Groups = append(response.Groups,
				h.fetchGroup(ctx, raw, req.Version, &req.Groups[i], &result))
		}
		return reply(response, result)
	}
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = req.Group
	if req.Topics != nil {
		asked.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range req.Topics {
		asked.Topics = append(asked.Topics,
			kmsg.OffsetFetchRequestGroupTopic{Topic: req.Topics[i].Topic,
				Partitions: req.Topics[i].Partitions})
	}
	answer := h.fetchGroup(ctx, raw, req.Version, &asked, &result)
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
	return reply(response, result)
}

// fetchGroup answers for one group. A partition without a committed offset has offset -1, which is
// no error, also where the group does not exist.
func (h *Handler) fetchGroup(ctx context.Context, raw *wire.Request, version int16,
	asked *kmsg.OffsetFetchRequestGroup, result *outcome) kmsg.OffsetFetchResponseGroup {
	img := h.opts.Image()
	answer := kmsg.NewOffsetFetchResponseGroup()
	answer.Group = asked.Group
	names, faults := h.offsetTopics(img, raw, version, asked)
	var of []group.TopicPartition
	if asked.Topics != nil {
		of = []group.TopicPartition{}
	}
	for i := range asked.Topics {
		for _, index := range asked.Topics[i].Partitions {
			if faults[i] == nil {
				of = append(of, group.TopicPartition{Topic: names[i], Partition: index})
			}
		}
	}
	to := group.Reader{Epoch: -1}
	if version >= 9 {
		to = group.Reader{Member: orEmpty(asked.MemberID), Epoch: asked.MemberEpoch}
	}
	var found []group.CommitOffset
	err := h.authorize(raw, describeGroup, asked.Group)
	if err == nil {
		found, err = h.opts.Groups.CommittedFor(ctx, asked.Group, to, of)
	}
	answer.ErrorCode = result.code(err)
	if asked.Topics == nil {
		answer.Topics = h.allOffsets(img, raw, version, found)
		return answer
	}
	if err != nil && version >= 2 {
		return answer
	}
	for i := range asked.Topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = asked.Topics[i].Topic, asked.Topics[i].TopicID
		for _, index := range asked.Topics[i].Partitions {
			part := offsetPart(group.CommitOffset{Partition: index,
				Offset: group.Offset{Offset: -1, LeaderEpoch: -1}})
			switch {
			case err != nil:
				part.ErrorCode = answer.ErrorCode
			case faults[i] != nil:
				part.ErrorCode = result.code(faults[i])
			default:
				part, found = offsetPart(found[0]), found[1:]
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		answer.Topics = append(answer.Topics, topic)
	}
	return answer
}

// offsetTopics returns the name of each topic of a request, or why its offsets are not returned.
// Before version 10 topics are requested by name, and need not exist.
func (h *Handler) offsetTopics(img *metadata.Image, raw *wire.Request, version int16,
	asked *kmsg.OffsetFetchRequestGroup) (names []string, faults []error) {
	names, faults = make([]string, len(asked.Topics)), make([]error, len(asked.Topics))
	for i := range asked.Topics {
		names[i] = asked.Topics[i].Topic
		if version >= 10 {
			names[i], faults[i] = topicName(img, asked.Topics[i].TopicID)
		}
		if faults[i] == nil {
			faults[i] = h.authorize(raw, describeTopic, names[i])
		}
	}
	return names, faults
}

// allOffsets returns all offsets of a group in topics that the client may describe, sorted by topic.
// From version 10 on it leaves out deleted topics: their ids are unknown.
func (h *Handler) allOffsets(img *metadata.Image, raw *wire.Request, version int16,
	found []group.CommitOffset) (topics []kmsg.OffsetFetchResponseGroupTopic) {
	for _, o := range found {
		known := img.Topic(o.Topic)
		if known == nil && version >= 10 || h.authorize(raw, describeTopic, o.Topic) != nil {
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
		last.Partitions = append(last.Partitions, offsetPart(o))
	}
	return topics
}

func offsetPart(o group.CommitOffset) kmsg.OffsetFetchResponseGroupTopicPartition {
	part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = o.Partition, o.Offset.Offset,
		o.LeaderEpoch, &o.Metadata
	return part
}
