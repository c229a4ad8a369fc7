package groups

import (
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// JoinGroup (key 11), versions 0-9.
//
//	1  rebalance timeout (KIP-62)
//	4  a new member joins twice, the second time with the id of the first response (KIP-394)
//	5  static members (KIP-345)
//	6  flexible
//	7  protocol type in the response (KIP-559)
//	8  reason (KIP-800), ignored
//	9  instructs the leader to keep the existing assignment (KIP-814)
//
// The request waits until the group starts its next generation.

// JoinGroupShape describes the fields of the request (api.Shape).
var JoinGroupShape = api.Shape{
	api.Text(), api.Fixed(4), api.Fixed(4).From(1), api.Text(), api.Text().From(5), api.Text(),
	api.Array(api.Text(), api.Blob()),
	api.Text().From(8),
}

// JoinGroup handles a JoinGroup request (key 11).
func (h *Handler) JoinGroup(ctx context.Context, from *wire.Request) (wire.Reply, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	if err := api.Decode(JoinGroupShape, from, req); err != nil {
		return wire.Reply{}, err
	}
	join := group.Join{
		Group: req.Group, Member: req.MemberID, Instance: api.OrEmpty(req.InstanceID),
		ClientID: from.ClientID, ClientHost: hostOf(from.Remote),
		Session:      milliseconds(req.SessionTimeoutMillis),
		Rebalance:    milliseconds(req.RebalanceTimeoutMillis),
		ProtocolType: req.ProtocolType, RequireMemberID: req.Version >= 4,
		CanSkipAssignment: req.Version >= 9,
	}
	if req.Version < 1 {
		join.Rebalance = join.Session
	}
	join.NewMember = memberID(&join)
	for i := range req.Protocols {
		p := &req.Protocols[i]
		join.Protocols = append(join.Protocols,
			group.Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)})
	}
	from.ReleaseBody()
	joined, err := group.Joined{Generation: -1, Member: req.MemberID},
		h.Authorize(from, api.ReadGroup, req.Group)
	if err == nil {
		err = checkInstance(req.InstanceID)
	}
	if err == nil {
		joined, err = h.Groups.Join(ctx, join)
	}
	return h.joinResponse(req, joined, err), nil
}

func (h *Handler) joinResponse(req *kmsg.JoinGroupRequest, joined group.Joined,
	err error) wire.Reply {
	response := kmsg.NewPtrJoinGroupResponse()
	response.Version = req.Version
	result := h.Outcome()
	response.ErrorCode = result.Code(err)
	response.MemberID, response.Generation = joined.Member, joined.Generation
	if err != nil {
		if errors.Is(err, group.ErrMemberIDRequired) {
			// MEMBER_ID_REQUIRED is the normal first response to a new member, so the metrics must not count
			// it as an error.
			result.Name = ""
		}
		none := ""
		response.Protocol = &none
		return api.Reply(response, result)
	}
	response.ProtocolType, response.Protocol = &joined.ProtocolType, &joined.Protocol
	response.LeaderID, response.SkipAssignment = joined.Leader, joined.SkipAssignment
	for i := range joined.Members {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID, member.ProtocolMetadata = joined.Members[i].ID, joined.Members[i].Metadata
		member.InstanceID = api.OrNull(joined.Members[i].Instance)
		response.Members = append(response.Members, member)
	}
	return api.Reply(response, result)
}

// memberID returns a unique member id. As in Kafka, it begins with the group.instance.id or the
// client id.
func memberID(join *group.Join) string {
	name := join.Instance
	if name == "" {
		name = join.ClientID
	}
	return name + "-" + uuid.NewString()
}

// checkInstance returns an error if the group.instance.id is empty or too long.
func checkInstance(instance *string) error {
	if instance == nil {
		return nil
	}
	if *instance == "" {
		return api.ErrInvalidRequest
	}
	return group.CheckID(*instance)
}

// hostOf returns the client's address in Kafka's format, such as "/10.0.0.1".
func hostOf(remote net.Addr) string {
	if remote == nil {
		return "/"
	}
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		host = remote.String()
	}
	return "/" + host
}

func milliseconds(n int32) time.Duration { return time.Duration(max(0, n)) * time.Millisecond }
