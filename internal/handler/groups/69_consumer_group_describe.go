package groups

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ConsumerGroupDescribe (key 69), versions 0-1 (KIP-848): describes groups of the consumer
// protocol. For a classic group, the response contains GROUP_ID_NOT_FOUND; clients then use
// DescribeGroups.
//
//	1  member type (KIP-1099): all members use the consumer protocol

// ConsumerDescribeShape describes the fields of the request (api.Shape).
var ConsumerDescribeShape = api.Shape{api.PlainArray(api.Text()), api.Fixed(1)}

// consumerMember is the member type for the consumer protocol.
const consumerMember = 1

// ConsumerDescribe handles a ConsumerGroupDescribe request (key 69).
func (h *Handler) ConsumerDescribe(ctx context.Context, raw *wire.Request,
	req *kmsg.ConsumerGroupDescribeRequest) wire.Reply {
	response := kmsg.NewPtrConsumerGroupDescribeResponse()
	response.Version = req.Version
	result := h.Outcome()
	img := h.Image()
	for _, id := range req.Groups {
		var described consumer.Description
		err := h.Authorize(raw, api.DescribeGroup, id)
		if err == nil {
			described, err = h.Groups.DescribeConsumer(ctx, id)
		}
		if err == nil {
			err = h.authorizeMembers(img, raw, &described)
		}
		answer := kmsg.NewConsumerGroupDescribeResponseGroup()
		answer.Group = id
		answer.ErrorCode, answer.ErrorMessage = result.Code(err), api.Message(err)
		if err == nil {
			answer.State, answer.Epoch, answer.AssignmentEpoch = described.State, described.Epoch,
				described.AssignmentEpoch
			answer.AssignorName = described.Assignor
			if req.IncludeAuthorizedOperations {
				answer.AuthorizedOperations = h.AuthorizedOperations(raw, api.ResourceGroup, id)
			}
		}
		for i := range described.Members {
			if err != nil {
				break
			}
			answer.Members = append(answer.Members, describedMember(img, &described.Members[i]))
		}
		response.Groups = append(response.Groups, answer)
	}
	return api.Reply(response, result)
}

// authorizeMembers returns nil if the client may describe every topic to which members of the group
// subscribe or that is assigned to them. Otherwise the group is not described at all, because a
// description without some of its topics would be wrong.
func (h *Handler) authorizeMembers(img *metadata.Image, raw *wire.Request,
	described *consumer.Description) error {
	for i := range described.Members {
		m := &described.Members[i]
		names := slices.Clone(m.Topics)
		for _, id := range slices.Concat(m.Assigned.Topics(), m.Target.Topics()) {
			if topic := img.TopicByID(id); topic != nil {
				names = append(names, topic.Name)
			}
		}
		for _, name := range names {
			if err := h.Authorize(raw, api.DescribeTopic, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func describedMember(img *metadata.Image,
	m *consumer.MemberDescription) kmsg.ConsumerGroupDescribeResponseGroupMember {
	member := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	member.MemberID, member.MemberEpoch, member.MemberType = m.ID, m.Epoch, consumerMember
	member.InstanceID, member.RackID, member.ClientID, member.ClientHost = api.OrNull(m.Instance),
		api.OrNull(m.Rack), m.ClientID, m.ClientHost
	member.SubscribedTopics, member.SubscribedTopicRegex = m.Topics, &m.Expression
	member.Assignment, member.TargetAssignment = describedAssignment(img, m.Assigned),
		describedAssignment(img, m.Target)
	return member
}

// describedAssignment returns an assignment with topic names. It omits deleted topics, because
// their names are unknown.
func describedAssignment(img *metadata.Image,
	assigned assignor.Assignment) (described kmsg.Assignment) {
	for _, id := range assigned.Topics() {
		if topic := img.TopicByID(id); topic != nil {
			described.TopicPartitions = append(described.TopicPartitions,
				kmsg.AssignmentTopicPartition{TopicID: id, Topic: topic.Name, Partitions: assigned[id]})
		}
	}
	return described
}
