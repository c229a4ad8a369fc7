package groups

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// FindCoordinator (key 10), versions 0-6: returns the broker that coordinates a group or a
// transactional id.
//
//	1  transactional ids, error message
//	3  flexible
//	4  several keys (KIP-699)
//	6  share groups (KIP-932), not served
//
// The first request for a group creates the topic __consumer_offsets, and the first request for a
// transactional id creates __transaction_state.

// FindCoordinatorShape describes the fields of the request (api.Shape).
var FindCoordinatorShape = api.Shape{api.Text().To(3), api.Fixed(1).From(1),
	api.PlainArray(api.Text()).From(4)}

const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
)

// FindCoordinator handles a FindCoordinator request (key 10).
func (h *Handler) FindCoordinator(ctx context.Context, raw *wire.Request,
	req *kmsg.FindCoordinatorRequest) wire.Reply {
	response := kmsg.NewPtrFindCoordinatorResponse()
	response.Version = req.Version
	result := h.Outcome()
	if req.Version < 4 {
		broker, err := h.coordinator(ctx, raw, req, req.CoordinatorKey)
		response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
		response.NodeID, response.Host, response.Port = broker.ID, broker.Host, broker.Port
		return api.Reply(response, result)
	}
	for _, key := range req.CoordinatorKeys {
		broker, err := h.coordinator(ctx, raw, req, key)
		found := kmsg.NewFindCoordinatorResponseCoordinator()
		found.Key, found.ErrorCode, found.ErrorMessage = key, result.Code(err), api.Message(err)
		found.NodeID, found.Host, found.Port = broker.ID, broker.Host, broker.Port
		response.Coordinators = append(response.Coordinators, found)
	}
	return api.Reply(response, result)
}

// coordinator returns a key's coordinator, with its endpoint on the client's listener. If there is
// an error, the returned node has id and port -1.
func (h *Handler) coordinator(ctx context.Context, raw *wire.Request,
	req *kmsg.FindCoordinatorRequest, key string) (api.Node, error) {
	var broker metadata.Broker
	var err error
	switch {
	case req.Version == 0 || req.CoordinatorType == coordinatorGroup:
		if err = h.Authorize(raw, api.DescribeGroup, key); err == nil {
			broker, err = h.Groups.Find(ctx, key)
		}
	case req.CoordinatorType == coordinatorTransaction:
		if err = h.Authorize(raw, api.DescribeTransactionalID, key); err == nil {
			broker, err = h.Transactions.Find(ctx, key)
		}
	default:
		err = fmt.Errorf("%w: coordinator type %d", api.ErrInvalidRequest, req.CoordinatorType)
	}
	if err == nil {
		if found, ok := api.NodeOn(&broker, raw.Listener); ok {
			return found, nil
		}
		err = coordinator.ErrNotAvailable
	}
	return api.Node{ID: metadata.NoBroker, Endpoint: metadata.Endpoint{Port: -1}}, err
}
