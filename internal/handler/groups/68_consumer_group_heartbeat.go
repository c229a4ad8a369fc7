package groups

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ConsumerGroupHeartbeat (key 68), versions 0-1 (KIP-848): a member of a consumer group joins,
// sends a heartbeat or leaves, and receives its assignment.
//
//	1  subscription by regular expression; member id chosen by the member (KIP-1082)

// ConsumerHeartbeatShape describes the fields of the request (api.Shape).
var ConsumerHeartbeatShape = api.Shape{
	api.Text(), api.Text(), api.Fixed(4), api.Text(), api.Text(), api.Fixed(4),
	api.PlainArray(api.Text()), api.Text().From(1), api.Text(),
	api.Array(api.Fixed(16), api.PlainArray(api.Fixed(4))),
}

// ConsumerHeartbeat handles a ConsumerGroupHeartbeat request (key 68).
func (h *Handler) ConsumerHeartbeat(ctx context.Context, from *wire.Request) (wire.Reply, error) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	if err := api.Decode(ConsumerHeartbeatShape, from, req); err != nil {
		return wire.Reply{}, err
	}
	if req.Version == 0 && req.MemberID == "" && req.MemberEpoch == consumer.EpochJoin {
		req.MemberID = metadata.NewID().String()
	}
	heartbeat := consumer.Heartbeat{
		Group: req.Group, Member: req.MemberID, Epoch: req.MemberEpoch, Instance: req.InstanceID,
		Rack: req.RackID, ClientID: from.ClientID,
		ClientHost: hostOf(from.Remote),
		Rebalance:  time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		Topics:     req.SubscribedTopicNames, Expression: req.SubscribedTopicRegex,
		Assignor: req.ServerAssignor,
	}
	if req.Topics != nil {
		heartbeat.Owned = assignor.Assignment{}
	}
	for i := range req.Topics {
		if topic := &req.Topics[i]; len(topic.Partitions) > 0 {
			all := slices.Concat(heartbeat.Owned[topic.TopicID], topic.Partitions)
			slices.Sort(all)
			heartbeat.Owned[topic.TopicID] = slices.Compact(all)
		}
	}
	from.ReleaseBody()
	answer, err := consumer.Answer{}, h.authorizeConsumer(from, req)
	if err == nil {
		err = checkIDs(req)
	}
	if err == nil {
		answer, err = h.Groups.ConsumerHeartbeat(ctx, &heartbeat)
	}
	return h.consumerHeartbeatResponse(req, answer, err), nil
}

// authorizeConsumer returns nil if the client may READ the group and DESCRIBE each topic that it
// subscribes to by name.
func (h *Handler) authorizeConsumer(from *wire.Request,
	req *kmsg.ConsumerGroupHeartbeatRequest) error {
	err := h.Authorize(from, api.ReadGroup, req.Group)
	for _, topic := range req.SubscribedTopicNames {
		if err == nil {
			err = h.Authorize(from, api.DescribeTopic, topic)
		}
	}
	return err
}

// checkIDs returns an error if an id is too long to be stored.
func checkIDs(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	for _, id := range []string{req.MemberID, api.OrEmpty(req.InstanceID), api.OrEmpty(req.RackID)} {
		if group.CheckID(id) != nil {
			return api.ErrInvalidRequest
		}
	}
	return nil
}

func (h *Handler) consumerHeartbeatResponse(req *kmsg.ConsumerGroupHeartbeatRequest,
	answer consumer.Answer, err error) wire.Reply {
	response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	response.Version = req.Version
	result := h.Outcome()
	response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
	if err != nil {
		return api.Reply(response, result)
	}
	response.MemberID, response.MemberEpoch = &req.MemberID, answer.Epoch
	response.HeartbeatIntervalMillis = int32(answer.Interval.Milliseconds())
	if answer.Assignment != nil {
		assigned := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
		for _, topic := range answer.Assignment.Topics() {
			assigned.Topics = append(assigned.Topics,
				kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{
					TopicID: topic, Partitions: answer.Assignment[topic],
				})
		}
		response.Assignment = &assigned
	}
	return api.Reply(response, result)
}
