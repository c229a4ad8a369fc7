package transactions

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// WriteTxnMarkers (key 27), versions 1-2: writes the markers that end transactions (KIP-98).
// Transaction coordinators send it to the partition leaders. kafka-transactions sends it to end a
// hanging transaction (KIP-664).
//
//	1  flexible
//	2  transaction version (KIP-1228), which is 0 in earlier versions
//
// The response waits until each partition's marker is below the high watermark. If a partition's
// replicas do not copy the marker within a second, the partition's result is REQUEST_TIMED_OUT, and
// the sender sends the marker again. A slow partition thus delays the results for other partitions
// by at most a second.

// WriteTxnMarkersShape describes the fields of the request (api.Shape).
var WriteTxnMarkersShape = api.Shape{
	api.Array(api.Fixed(11), api.PartitionsOfTopics, api.Fixed(4), api.Fixed(1).From(2)),
}

// writeTxnMarkersResponseShape describes the fields of the response (api.Shape).
var writeTxnMarkersResponseShape = api.Shape{
	api.Array(api.Fixed(8), api.Array(api.Text(), api.Array(api.Fixed(4), api.Fixed(2)))),
}

// WriteTxnMarkers handles a WriteTxnMarkers request (key 27).
func (h *Handler) WriteTxnMarkers(ctx context.Context, raw *wire.Request,
	req *kmsg.WriteTxnMarkersRequest) wire.Reply {
	response, result := kmsg.NewPtrWriteTxnMarkersResponse(), h.Outcome()
	response.Version = req.Version
	errs := h.appendMarkers(ctx, raw, markersOf(req, h.markers.superseded(raw)))
	for i := range req.Markers {
		marker := kmsg.NewWriteTxnMarkersResponseMarker()
		marker.ProducerID = req.Markers[i].ProducerID
		for _, requested := range req.Markers[i].Topics {
			topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			topic.Topic = requested.Topic
			for _, index := range requested.Partitions {
				part := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				part.Partition, part.ErrorCode = index, result.Code(errs[0])
				topic.Partitions, errs = append(topic.Partitions, part), errs[1:]
			}
			marker.Topics = append(marker.Topics, topic)
		}
		response.Markers = append(response.Markers, marker)
	}
	return api.Reply(response, result)
}

// markerSenders contains, for each broker, the newest connection over which it has sent markers. A
// broker uses a single connection to send markers to another broker, so markers that arrive over an
// earlier connection are outdated (producer.EndTxn).
type markerSenders struct {
	mu     sync.Mutex
	newest map[string]*atomic.Uint64 // connection number by client id
}

const (
	brokerClientPrefix = "broker-" // prefix of the client ids of brokers
	// markerSendersMax limits the number of client ids, because a client can choose any id.
	markerSendersMax = 10_000
)

// superseded records the connection of a request, and returns a function that reports whether the
// sender has used a newer connection since. It returns nil if the sender is not a broker.
func (m *markerSenders) superseded(raw *wire.Request) func() bool {
	if !strings.HasPrefix(raw.ClientID, brokerClientPrefix) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	newest := m.newest[raw.ClientID]
	switch {
	case newest == nil && len(m.newest) >= markerSendersMax:
		return nil
	case newest == nil:
		if m.newest == nil {
			m.newest = map[string]*atomic.Uint64{}
		}
		newest = new(atomic.Uint64)
		m.newest[strings.Clone(raw.ClientID)] = newest
	}
	connection := raw.Connection
	newest.Store(max(newest.Load(), connection))
	return func() bool { return newest.Load() > connection }
}

// markersOf returns the markers for all partitions, in the order of the request.
func markersOf(req *kmsg.WriteTxnMarkersRequest,
	superseded func() bool) (markers []replica.Marker) {
	for i := range req.Markers {
		marker := &req.Markers[i]
		end := logstore.EndTxn{ProducerID: marker.ProducerID, ProducerEpoch: marker.ProducerEpoch,
			Commit: marker.Committed, CoordinatorEpoch: marker.CoordinatorEpoch,
			Version: int16(marker.TransactionVersion), Superseded: superseded}
		for _, topic := range marker.Topics {
			for _, index := range topic.Partitions {
				markers = append(markers,
					replica.Marker{ID: api.PartitionRef(topic.Topic, index), End: end})
			}
		}
	}
	return markers
}

// appendMarkers appends the markers and waits until they are replicated. It returns one error for
// each marker. As in Kafka, the client needs one of two operations on the cluster: ClusterAction,
// which brokers have, or Alter, which administrators have.
func (h *Handler) appendMarkers(ctx context.Context, raw *wire.Request,
	markers []replica.Marker) []error {
	if !h.May(raw, api.AlterCluster, api.ClusterName) {
		if err := h.Authorize(raw, api.ClusterAction, api.ClusterName); err != nil {
			errs := make([]error, len(markers))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	return h.Groups.WriteMarkers(ctx, markers)
}
