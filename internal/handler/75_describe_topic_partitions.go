package handler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeTopicPartitions (key 75), version 0 (KIP-966): topics as in Metadata, in pages. Java's
// describeTopics sends it first.
//
// Topics are sorted by name; the cursor is the first partition that did not fit. There are no
// eligible leaders outside the ISR, whose last member stays in it (ADR 0136), so both lists are
// empty. Null, which the schema allows, crashes Java's client.

// describePartitionsMax is Kafka's max.request.partition.size.limit: the most partitions of one
// response.
const describePartitionsMax = 2000

// describePartitionsShape describes the fields of the request (shape.go).
var describePartitionsShape = shape{array(text()), fixed(4), optional(text(), fixed(4))}

// describePartitions answers from one metadata image. An empty list of topics requests all.
func (h *Handler) describePartitions(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeTopicPartitionsRequest) wire.Reply {
	img := h.opts.Image()
	response := kmsg.NewPtrDescribeTopicPartitionsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	left := describePartitionsMax
	if req.ResponsePartitionLimit > 0 {
		left = min(left, int(req.ResponsePartitionLimit))
	}
	from, first := "", int32(0)
	if req.Cursor != nil {
		from, first = req.Cursor.Topic, req.Cursor.Partition
	}
	if first < 0 {
		first = 0
	}
	for _, name := range h.namesToDescribe(img, raw, req) {
		if name < from {
			continue
		}
		if name != from {
			first = 0
		}
		if left <= 0 {
			response.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name}
			break
		}
		topic, next := h.describePage(raw, view{img, raw.Listener, true}, name, first, left,
			&result)
		response.Topics = append(response.Topics, topic)
		if left -= len(topic.Partitions); next >= 0 {
			response.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name,
				Partition: next}
			break
		}
	}
	return reply(response, result)
}

// namesToDescribe returns the requested names, sorted and without duplicates.
func (h *Handler) namesToDescribe(img *metadata.Image, raw *wire.Request,
	req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for _, topic := range req.Topics {
		names = append(names, topic.Topic)
	}
	if len(req.Topics) == 0 {
		for _, topic := range img.Topics {
			if h.authorize(raw, describeTopic, topic.Name) == nil {
				names = append(names, topic.Name)
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}

// describePage describes at most limit partitions of a topic, from first on. next is the partition
// after them, -1 if there is none.
func (h *Handler) describePage(raw *wire.Request, v view, name string, first int32, limit int,
	result *outcome) (answer kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	answer = kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic, answer.AuthorizedOperations = &name, operationsOmitted
	if err := h.authorize(raw, describeTopic, name); err != nil {
		answer.ErrorCode = result.code(err)
		return answer, -1
	}
	answer.AuthorizedOperations = h.authorizedOperations(raw, ResourceTopic, name)
	topic := v.image.Topic(name)
	if topic == nil {
		err := metadata.CheckTopicName(name)
		if err == nil {
			err = fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
		}
		answer.ErrorCode = result.code(err)
		return answer, -1
	}
	answer.TopicID, answer.IsInternal = topic.ID, topic.Internal
	for _, p := range topic.Partitions[min(int(first), len(topic.Partitions)):] {
		if len(answer.Partitions) == limit {
			return answer, p.Index
		}
		whole := describePartition(v, p, result)
		part := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		part.ErrorCode, part.Partition, part.LeaderID, part.LeaderEpoch = whole.ErrorCode, p.Index,
			whole.Leader, whole.LeaderEpoch
		part.Replicas, part.ISR, part.OfflineReplicas = whole.Replicas, whole.ISR,
			whole.OfflineReplicas
		part.EligibleLeaderReplicas, part.LastKnownELR = []int32{}, []int32{}
		answer.Partitions = append(answer.Partitions, part)
	}
	return answer, -1
}
