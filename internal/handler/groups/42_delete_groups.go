package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// DeleteGroups (key 42), versions 0-3 (KIP-229): deletes groups without members, and their offsets.
//
//	2  flexible
//	3  error messages

// DeleteGroupsShape describes the fields of the request (api.Shape).
var DeleteGroupsShape = api.Shape{api.PlainArray(api.Text())}

// DeleteGroups handles a DeleteGroups request (key 42).
func (h *Handler) DeleteGroups(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteGroupsRequest) wire.Reply {
	response := kmsg.NewPtrDeleteGroupsResponse()
	response.Version = req.Version
	result := h.Outcome()
	for _, id := range req.Groups {
		deleted := kmsg.NewDeleteGroupsResponseGroup()
		err := h.Authorize(raw, api.DeleteGroup, id)
		if err == nil {
			err = h.Groups.Delete(ctx, id)
		}
		deleted.Group, deleted.ErrorCode, deleted.ErrorMessage = id, result.Code(err), api.Message(err)
		response.Groups = append(response.Groups, deleted)
	}
	return api.Reply(response, result)
}
