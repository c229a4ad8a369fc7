package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ListPartitionReassignments (key 46), version 0 (KIP-455): lists the reassignments in progress.

// listReassignmentsShape describes the fields of the request (shape.go).
var listReassignmentsShape = shape{fixed(4), array(text(), plainArray(fixed(4)))}

// listReassignments returns the partitions of one metadata image that have a reassignment in
// progress. If the request's topics are null, it returns those of all topics.
func (h *Handler) listReassignments(_ context.Context, raw *wire.Request,
	req *kmsg.ListPartitionReassignmentsRequest) wire.Reply {
	response := kmsg.NewPtrListPartitionReassignmentsResponse()
	response.Version = req.Version
	result := h.outcome()
	if err := h.authorize(raw, describeCluster, clusterName); err != nil {
		response.ErrorCode, response.ErrorMessage = result.code(err), message(err)
		return reply(response, result)
	}
	requested := map[metadata.PartitionRef]bool{}
	for _, topic := range req.Topics {
		for _, index := range topic.Partitions {
			requested[metadata.PartitionRef{Topic: topic.Topic, Partition: index}] = true
		}
	}
	for _, topicImage := range h.opts.Image().Topics {
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
	return reply(response, result)
}
