package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeTopicPartitions (key 75), version 0 (KIP-966): describes topics like Metadata, but page
// by page. Java's describeTopics tries this API first.
//
// Topics are sorted by name, and the cursor is the first partition of the next page. The lists of
// eligible leader replicas (ELR) and last known ELR are always empty, because the last member never
// leaves the ISR (ADR 0136). The schema allows null lists, but they crash Java's client.

// DescribePartitionsMax is the maximum number of partitions in a response (Kafka's
// max.request.partition.size.limit).
const DescribePartitionsMax = 2000

// DescribePartitionsShape describes the fields of the request (api.Shape).
var DescribePartitionsShape = api.Shape{api.Array(api.Text()), api.Fixed(4),
	api.Optional(api.Text(), api.Fixed(4))}

// DescribePartitions describes partitions in one metadata image. If the list of topics is empty, it
// describes all topics.
func (h *Handler) DescribePartitions(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeTopicPartitionsRequest) wire.Reply {
	img := h.Image()
	response := kmsg.NewPtrDescribeTopicPartitionsResponse()
	response.Version = req.Version
	result := h.Outcome()
	left := DescribePartitionsMax
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
		view := api.View{Image: img, Listener: raw.Listener, ListenerError: true}
		topic, next := h.describePage(raw, view, name, first, left, &result)
		response.Topics = append(response.Topics, topic)
		if left -= len(topic.Partitions); next >= 0 {
			response.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name,
				Partition: next}
			break
		}
	}
	return api.Reply(response, result)
}

// namesToDescribe returns the names of the requested topics, sorted and without duplicates.
func (h *Handler) namesToDescribe(img *metadata.Image, raw *wire.Request,
	req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for _, topic := range req.Topics {
		names = append(names, topic.Topic)
	}
	if len(req.Topics) == 0 {
		for _, topic := range img.Topics {
			if h.May(raw, api.DescribeTopic, topic.Name) {
				names = append(names, topic.Name)
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}

// describePage describes at most limit partitions of a topic, starting with index first. next is
// the first omitted partition, or -1 if none was omitted.
func (h *Handler) describePage(raw *wire.Request, v api.View, name string, first int32, limit int,
	result *api.Outcome) (answer kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	answer = kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic, answer.AuthorizedOperations = &name, api.OperationsOmitted
	if err := h.Authorize(raw, api.DescribeTopic, name); err != nil {
		answer.ErrorCode = result.Code(err)
		return answer, -1
	}
	answer.AuthorizedOperations = h.AuthorizedOperations(raw, api.ResourceTopic, name)
	topic := v.Image.Topic(name)
	if topic == nil {
		err := metadata.CheckTopicName(name)
		if err == nil {
			err = fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
		}
		answer.ErrorCode = result.Code(err)
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
