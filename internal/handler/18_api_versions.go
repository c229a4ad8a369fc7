package handler

import (
	"context"
	"fmt"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// ApiVersions (key 18), versions 0-4: returns the API keys and version ranges of table.
//
//	1  throttle time
//	3  flexible, software name and version (KIP-511)
//	4  features with a minimum of 0
//
// A request with an unsupported version gets a response in the format of version 0, with the error
// UNSUPPORTED_VERSION and the table, so that the client can retry (KIP-511). The response header
// never contains tags. The only feature is the consumer protocol of groups (KIP-848), which cannot
// be disabled.

// groupFeature is Kafka's name for the version of consumer groups. Version 1 is the consumer
// protocol (KIP-848).
const groupFeature = "group.version"

// groupFeatureLevel is the only level of groupFeature.
const groupFeatureLevel = 1

// softwareName matches the valid names and versions of client software (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersionsShape describes the fields of the request (shape.go).
var apiVersionsShape = shape{text().from(3), text().from(3)}

// apiVersions checks the version first, because a body of an unsupported version cannot be decoded.
func (h *Handler) apiVersions(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	if row := h.api(keyAPIVersions); !row.serves(req.Version) {
		err := fmt.Errorf("%w: ApiVersions %d", errUnsupportedVersion, req.Version)
		return h.apiVersionsReply(0, err), nil
	}
	return decoded(apiVersionsShape, (*Handler).apiVersionsDecoded)(h, ctx, req)
}

func (h *Handler) apiVersionsDecoded(_ context.Context, raw *wire.Request,
	req *kmsg.ApiVersionsRequest) wire.Reply {
	if req.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) &&
		softwareName.MatchString(req.ClientSoftwareVersion)) {
		return h.apiVersionsReply(req.Version,
			fmt.Errorf("%w: invalid client software name or version", errInvalidRequest))
	}
	return h.apiVersionsReply(req.Version, nil)
}

func (h *Handler) apiVersionsReply(version int16, err error) wire.Reply {
	response := kmsg.NewPtrApiVersionsResponse()
	response.Version = version
	result := outcome{handler: h}
	response.ErrorCode = result.code(err)
	response.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: groupFeature,
		MinVersion: groupFeatureLevel, MaxVersion: groupFeatureLevel}}
	response.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: groupFeature,
		MinVersionLevel: groupFeatureLevel, MaxVersionLevel: groupFeatureLevel}}
	response.FinalizedFeaturesEpoch = 0
	for i := range h.apis {
		if row := &h.apis[i]; row.handle != nil && !h.unlisted[row.key] {
			key := kmsg.NewApiVersionsResponseApiKey()
			key.ApiKey, key.MinVersion, key.MaxVersion = row.key, row.min, row.max
			response.ApiKeys = append(response.ApiKeys, key)
		}
	}
	return reply(response, result)
}
