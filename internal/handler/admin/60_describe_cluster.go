package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeCluster (key 60), versions 0-2 (KIP-700): returns the brokers and the controller.
//
//	1  endpoint type (KIP-919): 1 brokers, 2 controllers, which are not supported
//	2  fenced brokers (KIP-1073), which are never listed
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// DescribeClusterShape describes the fields of the request (api.Shape).
var DescribeClusterShape = api.Shape{api.Fixed(1), api.Fixed(1).From(1), api.Fixed(1).From(2)}

// DescribeCluster returns the brokers and the controller in one metadata image, as Metadata does.
func (h *Handler) DescribeCluster(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeClusterRequest) wire.Reply {
	img := h.Image()
	response := kmsg.NewPtrDescribeClusterResponse()
	response.Version = req.Version
	response.ControllerID = metadata.NoBroker
	response.ClusterAuthorizedOperations = api.OperationsOmitted
	result := h.Outcome()
	err := checkEndpoint(req)
	response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
	if err != nil {
		return api.Reply(response, result)
	}
	response.EndpointType = endpointBrokers
	response.ClusterID, response.ControllerID = img.ClusterID, controller(img, raw.Listener)
	if req.IncludeClusterAuthorizedOperations {
		response.ClusterAuthorizedOperations = h.AuthorizedOperations(raw, api.ResourceCluster,
			api.ClusterName)
	}
	for _, b := range api.Nodes(img, raw.Listener) {
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = b.ID, b.Host, b.Port, b.NullableRack()
		response.Brokers = append(response.Brokers, broker)
	}
	return api.Reply(response, result)
}

// checkEndpoint returns an error if the request is for controllers. Version 0 has no endpoint type;
// it is always for brokers.
func checkEndpoint(req *kmsg.DescribeClusterRequest) error {
	switch {
	case req.Version < 1 || req.EndpointType == endpointBrokers:
		return nil
	case req.EndpointType == endpointControllers:
		return fmt.Errorf("%w: a broker cannot describe controllers",
			api.ErrMismatchedEndpoint)
	}
	return fmt.Errorf("%w: %d", api.ErrUnsupportedEndpoint, req.EndpointType)
}
