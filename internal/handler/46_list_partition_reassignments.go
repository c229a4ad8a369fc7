package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ListPartitionReassignments (key 46), version 0 (KIP-455): the moves under way.

// listReassignmentsShape is the request's fields (see shape.go).
var listReassignmentsShape = shape{fixed(4), array(text(), plainArray(fixed(4)))}

// listReassignments answers from one image. Null topics ask for all; partitions that do not move
// are left out.
func (h *Handler) listReassignments(_ context.Context, raw *wire.Request,
	req *kmsg.ListPartitionReassignmentsRequest) wire.Reply {
	response := kmsg.NewPtrListPartitionReassignmentsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	if err := h.authorize(raw, describeCluster, clusterName); err != nil {
		response.ErrorCode, response.ErrorMessage = result.code(err), message(err)
		return reply(response, result)
	}
	asked := map[metadata.PartitionRef]bool{}
	for _, topic := range req.Topics {
		for _, index := range topic.Partitions {
			asked[metadata.PartitionRef{Topic: topic.Topic, Partition: index}] = true
		}
	}
	for _, known := range h.opts.Image().Topics {
		topic := kmsg.NewListPartitionReassignmentsResponseTopic()
		topic.Topic = known.Name
		for _, p := range known.Partitions {
			if p.Target == nil || req.Topics != nil &&
				!asked[metadata.PartitionRef{Topic: known.Name, Partition: p.Index}] {
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
