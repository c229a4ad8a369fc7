package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// FindCoordinator (key 10), versions 0-2: there is none, as consumer groups are not built.
//
//	1  transactional ids too, throttle time, error message
//
// It is advertised for librdkafka's sake, which takes it for the sign that a broker knows lz4, and sends lz4 batches uncompressed,
// without a word, to one that does not serve it. BROKER_NOT_AVAILABLE is the one error that all take well: Java's consumer of a
// group fails at once with it, and librdkafka, which asks each second wherever group.id is set (it must be, also by those who assign
// partitions themselves), hands any other to the application in place of a record (docs/adr/0038).

// findCoordinatorShape is the request's fields (see shape.go).
var findCoordinatorShape = shape{text(), fixed(1).from(1)}

func (h *Handler) findCoordinator(_ context.Context, req *kmsg.FindCoordinatorRequest) wire.Reply {
	response := kmsg.NewPtrFindCoordinatorResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	response.ErrorCode, response.ErrorMessage = result.code(errNoCoordinator), message(errNoCoordinator)
	response.NodeID, response.Port = -1, -1
	return reply(response, result)
}
