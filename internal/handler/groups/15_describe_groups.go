package groups

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeGroups (key 15), versions 0-6.
//
//	3  authorized operations (KIP-430)
//	4  static members (KIP-345)
//	5  flexible
//	6  GROUP_ID_NOT_FOUND (KIP-1043)
//
// Below version 6 a group that does not exist is described in state Dead, without an error.

// DescribeGroupsShape describes the fields of the request (api.Shape).
var DescribeGroupsShape = api.Shape{api.PlainArray(api.Text()), api.Fixed(1).From(3)}

// DescribeGroups handles a DescribeGroups request (key 15).
func (h *Handler) DescribeGroups(ctx context.Context, raw *wire.Request,
	req *kmsg.DescribeGroupsRequest) wire.Reply {
	response := kmsg.NewPtrDescribeGroupsResponse()
	response.Version = req.Version
	result := h.Outcome()
	for _, id := range req.Groups {
		var described group.Description
		err := h.Authorize(raw, api.DescribeGroup, id)
		if err == nil {
			described, err = h.Groups.Describe(ctx, id)
		}
		answer := kmsg.NewDescribeGroupsResponseGroup()
		answer.Group = id
		answer.AuthorizedOperations = api.OperationsOmitted
		if errors.Is(err, group.ErrNotFound) {
			described.Phase = "Dead"
			if req.Version < 6 {
				err = nil
			}
		}
		answer.ErrorCode, answer.ErrorMessage = result.Code(err), api.Message(err)
		answer.State, answer.ProtocolType, answer.Protocol = described.Phase,
			described.ProtocolType, described.Protocol
		if err == nil && req.IncludeAuthorizedOperations {
			answer.AuthorizedOperations = h.AuthorizedOperations(raw, api.ResourceGroup, id)
		}
		for i := range described.Members {
			m := &described.Members[i]
			member := kmsg.NewDescribeGroupsResponseGroupMember()
			member.MemberID, member.InstanceID, member.ClientID, member.ClientHost = m.ID,
				api.OrNull(m.Instance), m.ClientID, m.ClientHost
			member.ProtocolMetadata, member.MemberAssignment = m.Metadata, m.Assignment
			answer.Members = append(answer.Members, member)
		}
		response.Groups = append(response.Groups, answer)
	}
	return api.Reply(response, result)
}
