package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// Heartbeat (key 12), versions 0-4: keeps a member in its group. The error REBALANCE_IN_PROGRESS
// tells the member to join again.
//
//	3  static members (KIP-345)
//	4  flexible

// heartbeatShape describes the fields of the request (shape.go).
var heartbeatShape = shape{text(), fixed(4), text(), text().from(3)}

func (h *Handler) heartbeat(ctx context.Context, raw *wire.Request,
	req *kmsg.HeartbeatRequest) wire.Reply {
	response := kmsg.NewPtrHeartbeatResponse()
	response.Version = req.Version
	result := h.outcome()
	err := h.authorize(raw, readGroup, req.Group)
	if err == nil {
		err = h.opts.Groups.Heartbeat(ctx, req.Group, req.MemberID, orEmpty(req.InstanceID),
			req.Generation)
	}
	response.ErrorCode = result.code(err)
	return reply(response, result)
}
