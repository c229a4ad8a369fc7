package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// ListConfigResources (key 74), versions 0-1: lists the resources that have configs, by type. In
// Kafka before 4.1 its name was ListClientMetricsResources.
//
//	0  client metrics subscriptions only (KIP-714)
//	1  the requested types, or all (KIP-1142)

// ListConfigResourcesShape describes the fields of the request (api.Shape).
var ListConfigResourcesShape = api.Shape{api.PlainArray(api.Fixed(1)).From(1)}

// configResourceTypes contains the types that a request without types lists, in Kafka's order.
var configResourceTypes = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics,
	kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeBroker,
	kmsg.ConfigResourceTypeTopic,
}

// ListConfigResources lists the resources of each requested type once. If the broker does not know
// one of the types, the response contains an error and no resources, as in Kafka.
func (h *Handler) ListConfigResources(_ context.Context, raw *wire.Request,
	req *kmsg.ListConfigResourcesRequest) wire.Reply {
	response := kmsg.NewPtrListConfigResourcesResponse()
	response.Version = req.Version
	result := h.Outcome()
	types, err := requestedTypes(req)
	if denied := h.Authorize(raw, api.DescribeClusterConfigs, api.ClusterName); denied != nil {
		err = denied
	}
	if response.ErrorCode = result.Code(err); err != nil {
		return api.Reply(response, result)
	}
	img := h.Image()
	for _, kind := range types {
		for _, name := range configResources(img, kind) {
			resource := kmsg.NewListConfigResourcesResponseConfigResource()
			resource.Type, resource.Name = int8(kind), name
			response.ConfigResources = append(response.ConfigResources, resource)
		}
	}
	return api.Reply(response, result)
}

// requestedTypes returns the resource types that a request lists, each once and in the order of
// configResourceTypes.
func requestedTypes(req *kmsg.ListConfigResourcesRequest) ([]kmsg.ConfigResourceType, error) {
	switch {
	case req.Version == 0:
		return []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}, nil
	case len(req.ResourceTypes) == 0:
		return configResourceTypes, nil
	}
	for _, kind := range req.ResourceTypes {
		if !slices.Contains(configResourceTypes, kmsg.ConfigResourceType(kind)) {
			return nil, fmt.Errorf("%w: resource type %d", api.ErrUnsupportedVersion, kind)
		}
	}
	var types []kmsg.ConfigResourceType
	for _, kind := range configResourceTypes {
		if slices.Contains(req.ResourceTypes, int8(kind)) {
			types = append(types, kind)
		}
	}
	return types, nil
}

// configResources returns the names of all resources of a type. A group is listed if it has its own
// settings; a client metrics subscription never exists.
func configResources(img *metadata.Image, kind kmsg.ConfigResourceType) (names []string) {
	switch kind {
	case kmsg.ConfigResourceTypeGroupConfig:
		return slices.Sorted(maps.Keys(img.GroupOverrides))
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		for i := range img.Brokers {
			names = append(names, strconv.Itoa(int(img.Brokers[i].ID)))
		}
	case kmsg.ConfigResourceTypeTopic:
		for _, topic := range img.Topics {
			names = append(names, topic.Name)
		}
	}
	return names
}
