package groups

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// SyncGroup (key 14), versions 0-5.
//
//	3  static members (KIP-345)
//	4  flexible
//	5  protocol type and name, which must match the group's (KIP-559)
//
// The request waits until the group's leader has sent the assignments and the assignments are
// stored.

// SyncGroupShape describes the fields of the request (api.Shape).
var SyncGroupShape = api.Shape{api.Text(), api.Fixed(4), api.Text(), api.Text().From(3),
	api.Text().From(5), api.Text().From(5),
	api.Array(api.Text(), api.Blob())}

// SyncGroup handles a SyncGroup request (key 14).
func (h *Handler) SyncGroup(ctx context.Context, from *wire.Request) (wire.Reply, error) {
	req := kmsg.NewPtrSyncGroupRequest()
	if err := api.Decode(SyncGroupShape, from, req); err != nil {
		return wire.Reply{}, err
	}
	sync := group.Sync{
		Group: req.Group, Member: req.MemberID, Instance: api.OrEmpty(req.InstanceID),
		Generation:   req.Generation,
		ProtocolType: api.OrEmpty(req.ProtocolType), Protocol: api.OrEmpty(req.Protocol),
		Assignments: map[string][]byte{},
	}
	for i := range req.GroupAssignment {
		sync.Assignments[req.GroupAssignment[i].MemberID] = bytes.Clone(
			req.GroupAssignment[i].MemberAssignment,
		)
	}
	from.ReleaseBody()
	response := kmsg.NewPtrSyncGroupResponse()
	response.Version = req.Version
	result := h.Outcome()
	var synced group.Synced
	err := h.Authorize(from, api.ReadGroup, req.Group)
	if err == nil {
		synced, err = h.Groups.Sync(ctx, sync)
	}
	response.ErrorCode = result.Code(err)
	if err == nil {
		response.ProtocolType, response.Protocol, response.MemberAssignment = &synced.ProtocolType,
			&synced.Protocol, synced.Assignment
	}
	return api.Reply(response, result), nil
}
