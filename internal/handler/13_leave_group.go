package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/wire"
)

// LeaveGroup (key 13), versions 0-5.
//
//	3  several members; static members may be named by instance id (KIP-345)
//	4  flexible
//	5  reason (KIP-800), ignored

// leaveGroupShape describes the fields of the request (shape.go).
var leaveGroupShape = shape{text(), text().to(2), array(text(), text(), text().from(5)).from(3)}

func (h *Handler) leaveGroup(ctx context.Context, raw *wire.Request,
	req *kmsg.LeaveGroupRequest) wire.Reply {
	leavers := []group.Leaver{{Member: req.MemberID}}
	if req.Version >= 3 {
		leavers = leavers[:0]
		for i := range req.Members {
			leavers = append(leavers,
				group.Leaver{Member: req.Members[i].MemberID,
					Instance: orEmpty(req.Members[i].InstanceID)})
		}
	}
	response := kmsg.NewPtrLeaveGroupResponse()
	response.Version = req.Version
	result := h.outcome()
	var errs []error
	err := h.authorize(raw, readGroup, req.Group)
	if err == nil {
		errs, err = h.opts.Groups.Leave(ctx, req.Group, leavers)
	}
	if err == nil && req.Version < 3 {
		err = errs[0]
	}
	response.ErrorCode = result.code(err)
	for i := range errs {
		member := kmsg.NewLeaveGroupResponseMember()
		member.MemberID, member.InstanceID, member.ErrorCode = leavers[i].Member,
			orNull(leavers[i].Instance), result.code(errs[i])
		response.Members = append(response.Members, member)
	}
	return reply(response, result)
}
