package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// DescribeAcls (key 29), CreateAcls (30) and DeleteAcls (31), versions 1-3: answered with
// SECURITY_DISABLED, as by a Kafka broker without an authorizer. DescribeAcls has one error
// (refuse), the others have one for each ACL or filter.
//
//	2  flexible
//	3  user resources (KIP-373)

// The shapes describe the fields of the requests (shape.go).
var (
	createACLsShape = shape{array(fixed(1), text(), fixed(1), text(), text(), fixed(2))}
	deleteACLsShape = shape{array(fixed(1), text(), fixed(1), text(), text(), fixed(2))}
)

func (h *Handler) createACLs(_ context.Context, _ *wire.Request,
	req *kmsg.CreateACLsRequest) wire.Reply {
	response, result := kmsg.NewPtrCreateACLsResponse(), outcome{handler: h}
	response.Version = req.Version
	for range req.Creations {
		created := kmsg.NewCreateACLsResponseResult()
		created.ErrorCode, created.ErrorMessage = result.code(errNoAuthorizer),
			message(errNoAuthorizer)
		response.Results = append(response.Results, created)
	}
	return reply(response, result)
}

func (h *Handler) deleteACLs(_ context.Context, _ *wire.Request,
	req *kmsg.DeleteACLsRequest) wire.Reply {
	response, result := kmsg.NewPtrDeleteACLsResponse(), outcome{handler: h}
	response.Version = req.Version
	for range req.Filters {
		deleted := kmsg.NewDeleteACLsResponseResult()
		deleted.ErrorCode, deleted.ErrorMessage = result.code(errNoAuthorizer),
			message(errNoAuthorizer)
		response.Results = append(response.Results, deleted)
	}
	return reply(response, result)
}
