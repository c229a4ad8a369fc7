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
// Transaction coordinators send it to the leaders of the partitions, and kafka-transactions to end
// a hanging transaction (KIP-664).
//
//	1  flexible
//	2  transaction version (KIP-1228); below, the markers have transaction version 0
//
// The answer for a partition is sent when its marker is below the high watermark. A partition whose
// replicas do not copy the marker within a second gets REQUEST_TIMED_OUT, so that it delays the
// answers for other partitions only for this time. The sender repeats the marker.

// WriteTxnMarkersShape describes the fields of the request (api.Shape).
var WriteTxnMarkersShape = api.Shape{
	api.Array(api.Fixed(11), api.PartitionsOfTopics, api.Fixed(4), api.Fixed(1).From(2)),
}

// writeTxnMarkersResponseShape describes the fields of the response (api.Shape).
var writeTxnMarkersResponseShape = api.Shape{
	api.Array(api.Fixed(8), api.Array(api.Text(), api.Array(api.Fixed(4), api.Fixed(2)))),
}

// WriteTxnMarkers answers requests of WriteTxnMarkers (key 27).
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

// markerSenders contains the newest connection over which each broker has sent markers. A broker
// sends its markers to each other broker over one connection, so markers that arrive over an
// earlier connection are late (producer.EndTxn).
type markerSenders struct {
	mu     sync.Mutex
	newest map[string]*atomic.Uint64 // by client id
}

const (
	brokerClientPrefix = "broker-" // prefix of the client ids of brokers
	// markerSendersMax limits the client ids, because a client may choose any.
	markerSendersMax = 10_000
)

// superseded records the connection of a request. It returns a function that reports whether the
// sender has used a later connection, or nil if the sender is not a broker.
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

// markersOf returns the markers of all partitions, in the order of the request.
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
// each marker. As in Kafka, either of two operations is sufficient: brokers have one of them, and
// administrators the other.
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
