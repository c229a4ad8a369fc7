package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// UpdateFeatures (key 57), versions 0-2 (KIP-584): sets the levels of the cluster's features.
// Clients cannot change a level: a feature has only one level, or the brokers determine its level.
// A request therefore succeeds only if it sets every feature to its current level. Any other
// request changes nothing and gets INVALID_UPDATE_VERSION, as in Kafka.
//
//	1  upgrade type, validation without a change (KIP-778)
//	2  one error for the whole request (KIP-1022)

// updateFeaturesShape describes the request's fields (api.Shape).
var updateFeaturesShape = api.Shape{api.Fixed(4), api.Array(api.Text(), api.Fixed(2), api.Fixed(1)),
	api.Fixed(1).From(1)}

// The upgrade types in a request.
const (
	upgradeOnly     = 1
	unsafeDowngrade = 3
)

func (h *Handler) updateFeatures(_ context.Context, raw *wire.Request,
	req *kmsg.UpdateFeaturesRequest) wire.Reply {
	response, result := kmsg.NewPtrUpdateFeaturesResponse(), h.Outcome()
	response.Version = req.Version
	err := h.Authorize(raw, api.AlterCluster, api.ClusterName)
	for i := range req.FeatureUpdates {
		if err == nil {
			err = checkFeature(req.Version, &req.FeatureUpdates[i], h.transactionVersion())
		}
	}
	response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
	for i := range req.FeatureUpdates {
		if err != nil || req.Version > 1 {
			break
		}
		updated := kmsg.NewUpdateFeaturesResponseResult()
		updated.Feature = req.FeatureUpdates[i].Feature
		response.Results = append(response.Results, updated)
	}
	return api.Reply(response, result)
}

// checkFeature returns nil if an update does not change its feature's level. current is the level
// of transactionFeature.
func checkFeature(version int16, update *kmsg.UpdateFeaturesRequestFeatureUpdate,
	current int16) error {
	reason := ""
	switch level := update.MaxVersionLevel; {
	case version >= 1 &&
		(update.UpgradeType < upgradeOnly || update.UpgradeType > unsafeDowngrade):
		reason = fmt.Sprintf("the upgrade type %d is unknown", update.UpgradeType)
	case update.Feature == transactionFeature && level == current: // unchanged
	case update.Feature == transactionFeature:
		reason = fmt.Sprintf("the brokers determine the version, which is %d", current)
	case update.Feature != groupFeature:
		reason = "the cluster does not have this feature"
	case level != groupFeatureLevel:
		reason = fmt.Sprintf("the cluster supports only version %d", groupFeatureLevel)
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w %d for feature %s: %s", api.ErrInvalidUpdateVersion, update.MaxVersionLevel,
		update.Feature, reason)
}
