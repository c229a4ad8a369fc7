package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ListPartitionReassignments (key 46), version 0 (KIP-455): lists the reassignments in progress.

// ListReassignmentsShape describes the fields of the request (api.Shape).
var ListReassignmentsShape = api.Shape{api.Fixed(4), api.Array(api.Text(),
	api.PlainArray(api.Fixed(4)))}

// ListReassignments lists the partitions that are being reassigned in one metadata image. A null
// list of topics means all topics.
func (h *Handler) ListReassignments(_ context.Context, raw *wire.Request,
	req *kmsg.ListPartitionReassignmentsRequest) wire.Reply {
	response := kmsg.NewPtrListPartitionReassignmentsResponse()
	response.Version = req.Version
	result := h.Outcome()
	if err := h.Authorize(raw, api.DescribeCluster, api.ClusterName); err != nil {
		response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
		return api.Reply(response, result)
	}
	requested := map[metadata.PartitionRef]bool{}
	for _, topic := range req.Topics {
		for _, index := range topic.Partitions {
			requested[metadata.PartitionRef{Topic: topic.Topic, Partition: index}] = true
		}
	}
	for _, topicImage := range h.Image().Topics {
		topic := kmsg.NewListPartitionReassignmentsResponseTopic()
		topic.Topic = topicImage.Name
		for _, p := range topicImage.Partitions {
			if p.Target == nil || req.Topics != nil &&
				!requested[metadata.PartitionRef{Topic: topicImage.Name, Partition: p.Index}] {
				continue
			}
			part := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			part.Partition, part.Replicas = p.Index, p.Replicas
			part.AddingReplicas, part.RemovingReplicas = p.Moving()
			topic.Partitions = append(topic.Partitions, part)
		}
		if len(topic.Partitions) > 0 {
			response.Topics = append(response.Topics, topic)
		}
	}
	return api.Reply(response, result)
}
