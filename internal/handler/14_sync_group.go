package handler

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/wire"
)

// SyncGroup (key 14), versions 0-5.
//
//	3  static members (KIP-345)
//	4  flexible
//	5  protocol type and name, which must match the group's (KIP-559)
//
// The request waits until the leader of the group has sent the assignments and they are stored.

// syncGroupShape describes the fields of the request (shape.go).
var syncGroupShape = shape{text(), fixed(4), text(), text().from(3), text().from(5), text().from(5),
	array(text(), blob())}

func (h *Handler) syncGroup(ctx context.Context, from *wire.Request) (wire.Reply, error) {
	req := kmsg.NewPtrSyncGroupRequest()
	if err := decode(syncGroupShape, from, req); err != nil {
		return wire.Reply{}, err
	}
	sync := group.Sync{
		Group: req.Group, Member: req.MemberID, Instance: orEmpty(req.InstanceID),
		Generation:   req.Generation,
		ProtocolType: orEmpty(req.ProtocolType), Protocol: orEmpty(req.Protocol),
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
	result := h.outcome()
	var synced group.Synced
	err := h.authorize(from, readGroup, req.Group)
	if err == nil {
		synced, err = h.opts.Groups.Sync(ctx, sync)
	}
	response.ErrorCode = result.code(err)
	if err == nil {
		response.ProtocolType, response.Protocol, response.MemberAssignment = &synced.ProtocolType,
			&synced.Protocol, synced.Assignment
	}
	return reply(response, result), nil
}
