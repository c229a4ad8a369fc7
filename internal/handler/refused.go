package handler

import (
	"context"
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// A client may send requests of an API that ApiVersions does not list: some clients assume the
// versions of a Kafka release instead of asking. Kafka closes the connection after such a request.
// The client then reports a network error, retries, and loses the other requests on the connection.
//
// Therefore the requests of all APIs that clients use are answered in the format of the API, with
// an error: UNSUPPORTED_VERSION, by which Kafka refuses an API whose feature is disabled, or the
// error for the particular feature. Only an API without a row in table or refused closes the
// connection: its format is unknown, or only brokers and controllers use it.

// refused returns the APIs that are answered with an error and that ApiVersions does not list. An
// implemented API moves to table.
func refused(h *Handler) []row {
	return []row{
		{55, "DescribeQuorum", 0, 2, 0, nil, refuse(h.Access, errNoQuorum)},
		{64, "UnregisterBroker", 0, 0, 0, nil, refuse(h.Access, errNoQuorum)},
		{71, "GetTelemetrySubscriptions", 0, 0, 0, nil, refuse(h.Access, errNoTelemetry)},
		{72, "PushTelemetry", 0, 0, 0, nil, refuse(h.Access, errNoTelemetry)},
		{76, "ShareGroupHeartbeat", 1, 1, 0, nil, refuse(h.Access, errNoShareGroups)},
		{77, "ShareGroupDescribe", 1, 1, 0, nil,
			decoded(shareGroupDescribeShape, h.shareGroupDescribe)},
		{78, "ShareFetch", 1, 2, 0, nil, refuse(h.Access, errNoShareGroups)},
		{79, "ShareAcknowledge", 1, 2, 0, nil, refuse(h.Access, errNoShareGroups)},
		{80, "AddRaftVoter", 0, 1, 0, nil, refuse(h.Access, errNoQuorum)},
		{81, "RemoveRaftVoter", 0, 0, 0, nil, refuse(h.Access, errNoQuorum)},
		{88, "StreamsGroupHeartbeat", 0, 0, 0, nil, refuse(h.Access, errNoStreamsGroups)},
		{89, "StreamsGroupDescribe", 0, 0, 0, nil,
			decoded(streamsGroupDescribeShape, h.streamsGroupDescribe)},
		{90, "DescribeShareGroupOffsets", 0, 1, 0, nil,
			decoded(describeShareOffsetsShape, h.describeShareOffsets)},
		{91, "AlterShareGroupOffsets", 0, 0, 0, nil, refuse(h.Access, errNoShareGroups)},
		{92, "DeleteShareGroupOffsets", 0, 0, 0, nil, refuse(h.Access, errNoShareGroups)},
	}
}

// The errors of refused requests. Their texts are sent to clients if the response has a field for
// them.
var (
	errNoTransactions  = errors.New("transactions are not supported yet")
	errNoSASL          = errors.New("SASL is not enabled on the listener, or is complete")
	errNoAuthorizer    = errors.New("No Authorizer is configured") //nolint:staticcheck // Kafka's
	errNoTokens        = errors.New("delegation tokens need an authenticated connection")
	errNoUsers         = unsupported("no listener authenticates clients")
	errNoTelemetry     = unsupported("client telemetry is not supported")
	errNoShareGroups   = unsupported("share groups are not supported")
	errNoStreamsGroups = unsupported("streams groups are not supported")
	errNoQuorum        = unsupported("no Raft quorum: Kubernetes stores the cluster's metadata")
)

// unsupported returns an error that maps to UNSUPPORTED_VERSION.
func unsupported(text string) error { return &unsupportedError{text} }

type unsupportedError struct{ text string }

func (e *unsupportedError) Error() string { return e.text }
func (e *unsupportedError) Unwrap() error { return errUnsupportedVersion }

// invalid returns an error that maps to INVALID_REQUEST.
func invalid(text string) error { return &invalidError{text} }

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return errInvalidRequest }

// refuse returns the handleFunc of an API whose response has one error for the whole request. It
// does not decode the body, because the response does not depend on it.
func refuse(a *Access, err error) handleFunc {
	return func(_ context.Context, req *wire.Request) (wire.Reply, error) {
		request := kmsg.RequestForKey(req.Key)
		request.SetVersion(req.Version)
		response, result := request.ResponseKind(), a.outcome()
		fields := reflect.ValueOf(response).Elem()
		fields.FieldByName("ErrorCode").SetInt(int64(result.code(err)))
		if text := fields.FieldByName("ErrorMessage"); text.IsValid() {
			text.Set(reflect.ValueOf(message(err)))
		}
		return reply(response, result), nil
	}
}
