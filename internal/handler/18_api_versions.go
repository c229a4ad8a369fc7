package handler

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// ApiVersions (key 18), versions 0-5: returns the supported API keys and their version ranges, as
// listed in table.
//
//	1  throttle time
//	3  flexible, software name and version (KIP-511)
//	4  features with a minimum of 0
//	5  the cluster and the broker that the client means (KIP-1242)
//
// A request with an unsupported version gets a response in the format of version 0, with the error
// UNSUPPORTED_VERSION and the table, so that the client can retry (KIP-511). A response with
// another error has no table. The response header never contains tags. The features are the
// consumer protocol of groups (KIP-848), which cannot be disabled, and the transaction version
// (KIP-890).

// groupFeature is Kafka's name for the consumer group feature. Version 1 is the consumer protocol
// (KIP-848).
const groupFeature = "group.version"

// groupFeatureLevel is the only level of groupFeature.
const groupFeatureLevel = 1

// transactionFeature is Kafka's name for the transaction version (KIP-890). The cluster uses
// version 2 once all brokers support it, and version 0 before that.
const transactionFeature = "transaction.version"

// transactionFeatureLevel is the highest level of transactionFeature that this broker supports.
const transactionFeatureLevel = 2

// softwareName matches the valid names and versions of client software (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersionsShape describes the request's fields (api.Shape).
var apiVersionsShape = api.Shape{api.Text().From(3), api.Text().From(3), api.Text().From(5),
	api.Fixed(4).From(5)}

// apiVersions checks the version before it decodes the body, because the body of an unsupported
// version cannot be decoded.
func (h *Handler) apiVersions(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	if row := h.row(api.KeyAPIVersions); !row.serves(req.Version) {
		err := fmt.Errorf("%w: ApiVersions %d", api.ErrUnsupportedVersion, req.Version)
		return h.apiVersionsReply(0, err), nil
	}
	return apiVersionsOf(h, ctx, req)
}

// apiVersionsOf responds to a request in a supported version.
var apiVersionsOf = api.Decoded(apiVersionsShape, (*Handler).apiVersionsDecoded)

func (h *Handler) apiVersionsDecoded(_ context.Context, raw *wire.Request,
	req *kmsg.ApiVersionsRequest) wire.Reply {
	if req.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) &&
		softwareName.MatchString(req.ClientSoftwareVersion)) {
		return h.apiVersionsReply(req.Version,
			fmt.Errorf("%w: invalid client software name or version", api.ErrInvalidRequest))
	}
	return h.apiVersionsReply(req.Version, checkPeer(req, h.image().ClusterID, h.admin.Broker.NodeID))
}

// unknownNode is the node id in a request of a client that does not know to which broker it
// connects, because the address is a bootstrap address.
const unknownNode = -1

// checkPeer returns an error if the client means another cluster or another broker. That happens
// when the address of a broker, such as a pod's, now belongs to another one. The client then
// bootstraps again (KIP-1242).
func checkPeer(req *kmsg.ApiVersionsRequest, cluster string, node int32) error {
	switch {
	case req.Version < 5 || req.ClusterID == nil && req.NodeID == unknownNode:
		return nil
	case req.ClusterID == nil || req.NodeID == unknownNode:
		return fmt.Errorf("%w: only one of cluster id and node id is set", api.ErrInvalidRequest)
	case *req.ClusterID != cluster:
		return fmt.Errorf("%w: the client means cluster %q", api.ErrRebootstrap, *req.ClusterID)
	case req.NodeID != node:
		return fmt.Errorf("%w: the client means broker %d", api.ErrRebootstrap, req.NodeID)
	}
	return nil
}

func (h *Handler) apiVersionsReply(version int16, err error) wire.Reply {
	response := kmsg.NewPtrApiVersionsResponse()
	response.Version = version
	result := h.Outcome()
	response.ErrorCode = result.Code(err)
	if err != nil && !errors.Is(err, api.ErrUnsupportedVersion) {
		return api.Reply(response, result)
	}
	h.addFeatures(response)
	for i := range h.rows {
		if row := &h.rows[i]; row.handle != nil && !h.unlisted[row.key] {
			key := kmsg.NewApiVersionsResponseApiKey()
			key.ApiKey, key.MinVersion, key.MaxVersion = row.key, row.min, row.max
			response.ApiKeys = append(response.ApiKeys, key)
		}
	}
	return api.Reply(response, result)
}

// addFeatures adds the features to the response. The epoch of the finalized features increases with
// each change of a level, because the Java client ignores features whose epoch is not newer than
// the one that it knows.
func (h *Handler) addFeatures(response *kmsg.ApiVersionsResponse) {
	add := func(name string, least, most, finalized int16) {
		response.SupportedFeatures = append(response.SupportedFeatures,
			kmsg.ApiVersionsResponseSupportedFeature{Name: name, MinVersion: least,
				MaxVersion: most})
		if finalized > 0 {
			response.FinalizedFeatures = append(response.FinalizedFeatures,
				kmsg.ApiVersionsResponseFinalizedFeature{Name: name, MinVersionLevel: finalized,
					MaxVersionLevel: finalized})
		}
	}
	version := h.transactionVersion()
	add(groupFeature, groupFeatureLevel, groupFeatureLevel, groupFeatureLevel)
	add(transactionFeature, 0, transactionFeatureLevel, version)
	response.FinalizedFeaturesEpoch = h.features.epochOf(version, time.Now())
}

// featureEpoch returns the epoch of the finalized features. The epoch is the time in ms at which
// this process first observed the current level, so it need not be stored. It increases when the
// broker restarts, and also when the level falls because an older broker registers. Kafka uses an
// offset in its metadata log as the epoch.
type featureEpoch struct {
	mu    sync.Mutex
	level int16
	epoch int64 // 0: no level observed yet
}

func (f *featureEpoch) epochOf(level int16, now time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch == 0 || level != f.level {
		f.level, f.epoch = level, max(f.epoch+1, now.UnixMilli())
	}
	return f.epoch
}

// transactionVersion returns the current level of transactionFeature.
func (h *Handler) transactionVersion() int16 {
	return min(h.image().TransactionVersion(), transactionFeatureLevel)
}
