package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterPartitionReassignments (key 45), versions 0-1 (KIP-455): moves partitions to other brokers.
// A null list of replicas cancels a reassignment.
//
//	0  flexible
//	1  whether the replication factor may change (KIP-860)
//
// A request that moves all partitions of a topic to another number of replicas also changes the
// number in the Topic resource (metadata.ReplicaNumbers).

// AlterReassignmentsShape describes the fields of the request (api.Shape).
var AlterReassignmentsShape = api.Shape{api.Fixed(4), api.Fixed(1).From(1),
	api.Array(api.Text(), api.Array(api.Fixed(4), api.PlainArray(api.Fixed(4))))}

// AlterReassignments stores the targets of all reassignments. The brokers copy the data after the
// response.
func (h *Handler) AlterReassignments(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterPartitionAssignmentsRequest) wire.Reply {
	ctx, cancel := api.WithTimeout(ctx, api.AdminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	response.Version, response.AllowReplicationFactorChange = req.Version,
		req.AllowReplicationFactorChange
	result := h.Outcome()
	err := h.Authorize(raw, api.AlterCluster, api.ClusterName)
	if err == nil {
		err = api.Writable(h.Image())
	}
	if err != nil {
		response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
		return api.Reply(response, result)
	}
	var moves []metadata.Move
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			moves = append(moves,
				metadata.Move{Topic: topic.Topic, Partition: p.Partition, Replicas: p.Replicas,
					SameNumber: req.Version >= 1 && !req.AllowReplicationFactorChange})
		}
	}
	faults := h.Mover.Reassign(ctx, moves)
	h.awaitImage(ctx, func(img *metadata.Image) bool { return showsTargets(img, moves, faults) })
	next := 0
	for _, requested := range req.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = requested.Topic
		for _, p := range requested.Partitions {
			part := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			part.Partition = p.Partition
			part.ErrorCode, part.ErrorMessage = result.Code(faults[next]), api.Message(faults[next])
			topic.Partitions = append(topic.Partitions, part)
			next++
		}
		response.Topics = append(response.Topics, topic)
	}
	return api.Reply(response, result)
}

// showsTargets reports whether an image contains the targets of all accepted reassignments. It
// ignores requests that cancel a reassignment.
func showsTargets(img *metadata.Image, moves []metadata.Move, faults []error) bool {
	for i, move := range moves {
		_, p, err := img.Partition(metadata.PartitionRef{Topic: move.Topic,
			Partition: move.Partition})
		if err == nil && faults[i] == nil && move.Replicas != nil &&
			!metadata.AssignedTo(p, move.Replicas) {
			return false
		}
	}
	return true
}
