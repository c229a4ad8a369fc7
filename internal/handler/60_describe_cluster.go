package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeCluster (key 60), versions 0-2 (KIP-700).
//
//	1  endpoint type (KIP-919): 1 brokers, 2 controllers, which are not supported
//	2  fenced brokers (KIP-1073), which are never listed
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// describeClusterShape describes the fields of the request (shape.go).
var describeClusterShape = shape{fixed(1), fixed(1).from(1), fixed(1).from(2)}

// describeCluster returns the brokers and the controller of one metadata image, as Metadata does.
func (h *Handler) describeCluster(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeClusterRequest) wire.Reply {
	img := h.opts.Image()
	response := kmsg.NewPtrDescribeClusterResponse()
	response.Version = req.Version
	response.ControllerID = metadata.NoBroker
	response.ClusterAuthorizedOperations = operationsOmitted
	result := h.outcome()
	err := checkEndpoint(req)
	response.ErrorCode, response.ErrorMessage = result.code(err), message(err)
	if err != nil {
		return reply(response, result)
	}
	response.EndpointType = endpointBrokers
	response.ClusterID, response.ControllerID = img.ClusterID, controller(img, raw.Listener)
	if req.IncludeClusterAuthorizedOperations {
		response.ClusterAuthorizedOperations = h.authorizedOperations(raw, ResourceCluster,
			clusterName)
	}
	for _, b := range nodes(img, raw.Listener) {
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = b.ID, b.Host, b.Port, b.rack()
		response.Brokers = append(response.Brokers, broker)
	}
	return reply(response, result)
}

// checkEndpoint returns an error for a request for controllers. Version 0 has no endpoint type and
// means brokers.
func checkEndpoint(req *kmsg.DescribeClusterRequest) error {
	switch {
	case req.Version < 1 || req.EndpointType == endpointBrokers:
		return nil
	case req.EndpointType == endpointControllers:
		return fmt.Errorf("%w: a broker cannot describe controllers",
			errMismatchedEndpoint)
	}
	return fmt.Errorf("%w: %d", errUnsupportedEndpoint, req.EndpointType)
}
