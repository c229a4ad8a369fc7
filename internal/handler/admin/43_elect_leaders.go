package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ElectLeaders (key 43), versions 0-2 (KIP-183): elects the preferred replicas as leaders.
//
//	1  election type (KIP-460): 0 preferred, 1 unclean
//	2  flexible
//
// This API rejects unclean elections, because they lose records. An administrator must allow
// unclean elections in the Topic: once by the annotation heartwood.dev/accept-data-loss, or always
// by unclean.leader.election.enable.

// ElectLeadersShape describes the fields of the request (api.Shape).
var ElectLeadersShape = api.Shape{api.Fixed(1).From(1), api.Array(api.Text(),
	api.PlainArray(api.Fixed(4))), api.Fixed(4)}

// ElectLeaders requests all elections at once and waits for their results. If the request's list of
// topics is null, it requests elections for all partitions.
func (h *Handler) ElectLeaders(ctx context.Context, raw *wire.Request,
	req *kmsg.ElectLeadersRequest) wire.Reply {
	ctx, cancel := api.WithTimeout(ctx, api.AdminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrElectLeadersResponse()
	response.Version = req.Version
	result := h.Outcome()
	err := h.Authorize(raw, api.AlterCluster, api.ClusterName)
	response.ErrorCode = result.Code(err)
	if err == nil {
		err = api.Writable(h.Image())
	}
	if err == nil && req.ElectionType != 0 {
		err = fmt.Errorf(
			"%w: allow unclean elections by the Topic's annotation "+
				"heartwood.dev/accept-data-loss or by unclean.leader.election.enable",
			metadata.ErrPolicy,
		)
	}
	refs := h.requestedElections(req)
	faults := make([]error, len(refs))
	if err == nil {
		faults = h.Mover.ElectPreferred(ctx, refs)
		h.awaitElections(ctx, refs, faults)
	}
	indexes := map[string]int{}
	for i, ref := range refs {
		if _, known := indexes[ref.Topic]; !known {
			indexes[ref.Topic] = len(response.Topics)
			topic := kmsg.NewElectLeadersResponseTopic()
			topic.Topic = ref.Topic
			response.Topics = append(response.Topics, topic)
		}
		fault := faults[i]
		if err != nil {
			fault = err
		}
		part := kmsg.NewElectLeadersResponseTopicPartition()
		part.Partition = ref.Partition
		part.ErrorCode, part.ErrorMessage = result.Code(fault), api.Message(fault)
		topic := &response.Topics[indexes[ref.Topic]]
		topic.Partitions = append(topic.Partitions, part)
	}
	return api.Reply(response, result)
}

// requestedElections returns the partitions whose leader a request wants to elect. If the request
// is for all partitions, those whose preferred replica is already the leader are omitted, as in
// Kafka.
func (h *Handler) requestedElections(req *kmsg.ElectLeadersRequest) (refs []metadata.PartitionRef) {
	if req.Topics == nil {
		img := h.Image()
		for _, topic := range img.Topics {
			for _, p := range topic.Partitions {
				if metadata.CheckPreferred(img, p) == nil {
					refs = append(refs,
						metadata.PartitionRef{Topic: topic.Name, Partition: p.Index})
				}
			}
		}
		return refs
	}
	for _, topic := range req.Topics {
		for _, index := range topic.Partitions {
			refs = append(refs, metadata.PartitionRef{Topic: topic.Topic, Partition: index})
		}
	}
	return refs
}

// awaitElections waits until the metadata image contains the results of the elections, or until the
// timeout. The result of an unfinished election is then REQUEST_TIMED_OUT, but the election may
// still complete.
func (h *Handler) awaitElections(ctx context.Context, refs []metadata.PartitionRef,
	faults []error) {
	elected := func(img *metadata.Image, ref metadata.PartitionRef) bool {
		_, p, err := img.Partition(ref)
		return err != nil || metadata.LedByPreferred(p)
	}
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		for i, ref := range refs {
			if faults[i] == nil && !elected(img, ref) {
				return false
			}
		}
		return true
	})
	img := h.Image()
	for i, ref := range refs {
		if faults[i] == nil && !elected(img, ref) {
			faults[i] = fmt.Errorf("%w: the election was requested and has not completed yet",
				context.DeadlineExceeded)
		}
	}
}
