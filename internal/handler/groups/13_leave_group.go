package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// LeaveGroup (key 13), versions 0-5.
//
//	3  several members; static members may be named by instance id (KIP-345)
//	4  flexible
//	5  reason (KIP-800), ignored

// LeaveGroupShape describes the fields of the request (api.Shape).
var LeaveGroupShape = api.Shape{api.Text(), api.Text().To(2), api.Array(api.Text(), api.Text(),
	api.Text().From(5)).From(3)}

// LeaveGroup handles a LeaveGroup request (key 13).
func (h *Handler) LeaveGroup(ctx context.Context, raw *wire.Request,
	req *kmsg.LeaveGroupRequest) wire.Reply {
	leavers := []group.Leaver{{Member: req.MemberID}}
	if req.Version >= 3 {
		leavers = leavers[:0]
		for i := range req.Members {
			leavers = append(leavers,
				group.Leaver{Member: req.Members[i].MemberID,
					Instance: api.OrEmpty(req.Members[i].InstanceID)})
		}
	}
	response := kmsg.NewPtrLeaveGroupResponse()
	response.Version = req.Version
	result := h.Outcome()
	var errs []error
	err := h.Authorize(raw, api.ReadGroup, req.Group)
	if err == nil {
		errs, err = h.Groups.Leave(ctx, req.Group, leavers)
	}
	if err == nil && req.Version < 3 {
		err = errs[0]
	}
	response.ErrorCode = result.Code(err)
	for i := range errs {
		member := kmsg.NewLeaveGroupResponseMember()
		member.MemberID, member.InstanceID, member.ErrorCode = leavers[i].Member,
			api.OrNull(leavers[i].Instance), result.Code(errs[i])
		response.Members = append(response.Members, member)
	}
	return api.Reply(response, result)
}
