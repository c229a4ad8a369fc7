package handler

import (
	"context"
	"fmt"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// ApiVersions (key 18), versions 0-4: the table, as clients are told it.
//
//	1  throttle time     3  flexible, software name and version (KIP-511)     4  features from 0 on
//
// A version above ours is answered in the shape of version 0 with UNSUPPORTED_VERSION and the
// table, so that the client can ask again (KIP-511). The response header never carries tags. The
// one feature is the consumer protocol of groups (KIP-848); it cannot be switched off.

// groupFeature is Kafka's name of what consumer groups can do: 1 is KIP-848.
const groupFeature = "group.version"

// softwareName is what KIP-511 allows for a client's name and version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersionsShape is the request's fields (see shape.go).
var apiVersionsShape = shape{text().from(3), text().from(3)}

// apiVersions looks at the version before the body: that of an unknown one cannot be read.
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
			fmt.Errorf("%w: client software name or version", errInvalidRequest))
	}
	return h.apiVersionsReply(req.Version, nil)
}

func (h *Handler) apiVersionsReply(version int16, err error) wire.Reply {
	response := kmsg.NewPtrApiVersionsResponse()
	response.Version = version
	result := outcome{handler: h}
	response.ErrorCode = result.code(err)
	response.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: groupFeature,
		MinVersion: 1, MaxVersion: 1}}
	response.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: groupFeature,
		MinVersionLevel: 1, MaxVersionLevel: 1}}
	response.FinalizedFeaturesEpoch = 0
	for i := range h.apis {
		if row := &h.apis[i]; row.handle != nil {
			key := kmsg.NewApiVersionsResponseApiKey()
			key.ApiKey, key.MinVersion, key.MaxVersion = row.key, row.min, row.max
			response.ApiKeys = append(response.ApiKeys, key)
		}
	}
	return reply(response, result)
}
