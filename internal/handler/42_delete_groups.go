package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// DeleteGroups (key 42), versions 0-2 (KIP-229): deletes groups without members, and their offsets.
//
//	2  flexible

// deleteGroupsShape describes the fields of the request (shape.go).
var deleteGroupsShape = shape{plainArray(text())}

func (h *Handler) deleteGroups(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteGroupsRequest) wire.Reply {
	response := kmsg.NewPtrDeleteGroupsResponse()
	response.Version = req.Version
	result := h.outcome()
	for _, id := range req.Groups {
		deleted := kmsg.NewDeleteGroupsResponseGroup()
		err := h.authorize(raw, deleteGroup, id)
		if err == nil {
			err = h.opts.Groups.Delete(ctx, id)
		}
		deleted.Group, deleted.ErrorCode = id, result.code(err)
		response.Groups = append(response.Groups, deleted)
	}
	return reply(response, result)
}
