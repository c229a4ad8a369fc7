package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// Heartbeat (key 12), versions 0-4: keeps a member in its group. After the error
// REBALANCE_IN_PROGRESS the member must join again.
//
//	3  static members (KIP-345)
//	4  flexible

// HeartbeatShape describes the fields of the request (api.Shape).
var HeartbeatShape = api.Shape{api.Text(), api.Fixed(4), api.Text(), api.Text().From(3)}

// Heartbeat handles a Heartbeat request (key 12).
func (h *Handler) Heartbeat(ctx context.Context, raw *wire.Request,
	req *kmsg.HeartbeatRequest) wire.Reply {
	response := kmsg.NewPtrHeartbeatResponse()
	response.Version = req.Version
	result := h.Outcome()
	err := h.Authorize(raw, api.ReadGroup, req.Group)
	if err == nil {
		err = h.Groups.Heartbeat(ctx, req.Group, req.MemberID, api.OrEmpty(req.InstanceID),
			req.Generation)
	}
	response.ErrorCode = result.Code(err)
	return api.Reply(response, result)
}
