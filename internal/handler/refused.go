package handler

import (
	"context"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// Some clients assume the versions of a Kafka release instead of sending ApiVersions. They may
// therefore send requests of an API that ApiVersions does not list. Kafka closes the connection
// after such a request. The client then reports a network error, retries, and loses the other
// requests on the connection.
//
// Therefore the broker responds to all APIs of clients in the API's format, with an error. The
// error is UNSUPPORTED_VERSION, which Kafka uses for an API whose feature is disabled, or an error
// specific to the feature. The connection is closed only after a request for an API without a row
// in table or refused, because the API's format is unknown or because only brokers and controllers
// use it.

// refused lists the APIs to whose requests the broker responds only with an error. ApiVersions does
// not list them. An API that is implemented moves to table.
var refused = []row{
	{55, "DescribeQuorum", 0, 2, 0, nil, refuse(errNoQuorum)},
	{64, "UnregisterBroker", 0, 0, 0, nil, refuse(errNoQuorum)},
	{71, "GetTelemetrySubscriptions", 0, 0, 0, nil, refuse(errNoTelemetry)},
	{72, "PushTelemetry", 0, 0, 0, nil, refuse(errNoTelemetry)},
	{76, "ShareGroupHeartbeat", 1, 1, 0, nil, refuse(errNoShareGroups)},
	{77, "ShareGroupDescribe", 1, 1, 0, nil,
		api.Decoded(shareGroupDescribeShape, (*Handler).shareGroupDescribe)},
	{78, "ShareFetch", 1, 2, 0, nil, refuse(errNoShareGroups)},
	{79, "ShareAcknowledge", 1, 2, 0, nil, refuse(errNoShareGroups)},
	{80, "AddRaftVoter", 0, 1, 0, nil, refuse(errNoQuorum)},
	{81, "RemoveRaftVoter", 0, 0, 0, nil, refuse(errNoQuorum)},
	{88, "StreamsGroupHeartbeat", 0, 0, 0, nil, refuse(errNoStreamsGroups)},
	{89, "StreamsGroupDescribe", 0, 0, 0, nil,
		api.Decoded(streamsGroupDescribeShape, (*Handler).streamsGroupDescribe)},
	{90, "DescribeShareGroupOffsets", 0, 1, 0, nil,
		api.Decoded(describeShareOffsetsShape, (*Handler).describeShareOffsets)},
	{91, "AlterShareGroupOffsets", 0, 0, 0, nil, refuse(errNoShareGroups)},
	{92, "DeleteShareGroupOffsets", 0, 0, 0, nil, refuse(errNoShareGroups)},
}

// The errors for refused requests. Their texts are sent to clients if the response has a field for
// them.
var (
	errNoTelemetry     = api.Unsupported("client telemetry is not supported")
	errNoShareGroups   = api.Unsupported("share groups are not supported")
	errNoStreamsGroups = api.Unsupported("streams groups are not supported")
	errNoQuorum        = api.Unsupported("no Raft quorum: Kubernetes stores the cluster's metadata")
)

// refuse returns the handleFunc for an API whose response has one error for the whole request. The
// handleFunc does not decode the body, because the response does not depend on it.
func refuse(err error) handleFunc {
	return func(h *Handler, _ context.Context, req *wire.Request) (wire.Reply, error) {
		request := kmsg.RequestForKey(req.Key)
		request.SetVersion(req.Version)
		response, result := request.ResponseKind(), h.Outcome()
		fields := reflect.ValueOf(response).Elem()
		fields.FieldByName("ErrorCode").SetInt(int64(result.Code(err)))
		if text := fields.FieldByName("ErrorMessage"); text.IsValid() {
			text.Set(reflect.ValueOf(api.Message(err)))
		}
		return api.Reply(response, result), nil
	}
}
