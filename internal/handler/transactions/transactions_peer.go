package transactions

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// This file contains the requests for transactions between brokers: WriteTxnMarkers from
// coordinators to leaders, and AddPartitionsToTxn from leaders to coordinators.

const (
	markersVersion = 2
	verifyVersion  = 5
)

// errShortResponse means that a response has fewer items than its request.
var errShortResponse = errors.New("response lacks an item of the request")

// WriteMarkersCall returns a WriteTxnMarkers request that contains the markers.
func WriteMarkersCall(markers []coordinator.PartitionMarker) wire.Call {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = markersVersion
	for i := range markers {
		m := &markers[i]
		if i == 0 || !sameTransaction(m, &markers[i-1]) {
			marker := kmsg.NewWriteTxnMarkersRequestMarker()
			marker.ProducerID, marker.ProducerEpoch = m.Producer.ID, m.Producer.Epoch
			marker.Committed, marker.CoordinatorEpoch = m.Commit, m.CoordinatorEpoch
			marker.TransactionVersion = int8(m.Version)
			req.Markers = append(req.Markers, marker)
		}
		marker := &req.Markers[len(req.Markers)-1]
		if n := len(marker.Topics); n == 0 || marker.Topics[n-1].Topic != m.Partition.Topic {
			topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			topic.Topic = m.Partition.Topic
			marker.Topics = append(marker.Topics, topic)
		}
		topic := &marker.Topics[len(marker.Topics)-1]
		topic.Partitions = append(topic.Partitions, m.Partition.Index)
	}
	return wire.Call{Key: api.KeyWriteTxnMarkers, Version: markersVersion, Flexible: true,
		Append: req.AppendTo}
}

func sameTransaction(a, b *coordinator.PartitionMarker) bool {
	return a.Producer == b.Producer && a.Commit == b.Commit && a.Version == b.Version &&
		a.CoordinatorEpoch == b.CoordinatorEpoch
}

// DecodeWriteMarkers returns the errors in the response to a WriteMarkersCall, in the order of the
// request's n markers.
func DecodeWriteMarkers(body []byte, n int) ([]error, error) {
	if err := writeTxnMarkersResponseShape.Check(markersVersion, true, body); err != nil {
		return nil, err
	}
	answer := kmsg.WriteTxnMarkersResponse{Version: markersVersion}
	if err := answer.ReadFrom(body); err != nil {
		return nil, err
	}
	errs := make([]error, 0, n)
	for i := range answer.Markers {
		for j := range answer.Markers[i].Topics {
			for _, p := range answer.Markers[i].Topics[j].Partitions {
				errs = append(errs, transactionPeerError(p.ErrorCode))
			}
		}
	}
	if len(errs) != n {
		return nil, errShortResponse
	}
	return errs, nil
}

// VerifyCall returns an AddPartitionsToTxn request that verifies transactions.
func VerifyCall(questions []replica.Verification) wire.Call {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version = verifyVersion
	for _, q := range questions {
		asked := kmsg.NewAddPartitionsToTxnRequestTransaction()
		asked.TransactionalID = q.TransactionalID
		asked.ProducerID, asked.ProducerEpoch = q.ProducerID, q.ProducerEpoch
		asked.VerifyOnly = !q.Add
		for _, p := range q.Partitions {
			if n := len(asked.Topics); n == 0 || asked.Topics[n-1].Topic != p.Topic {
				topic := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
				topic.Topic = p.Topic
				asked.Topics = append(asked.Topics, topic)
			}
			topic := &asked.Topics[len(asked.Topics)-1]
			topic.Partitions = append(topic.Partitions, p.Index)
		}
		req.Transactions = append(req.Transactions, asked)
	}
	return wire.Call{Key: api.KeyAddPartitionsToTxn, Version: verifyVersion, Flexible: true,
		Append: req.AppendTo}
}

// DecodeVerify returns the errors in the response to a VerifyCall, in the order of questions and
// their partitions.
func DecodeVerify(body []byte, questions []replica.Verification) ([][]error, error) {
	if err := addPartitionsResponseShape.Check(verifyVersion, true, body); err != nil {
		return nil, err
	}
	answer := kmsg.AddPartitionsToTxnResponse{Version: verifyVersion}
	if err := answer.ReadFrom(body); err != nil {
		return nil, err
	}
	if err := transactionPeerError(answer.ErrorCode); err != nil {
		return nil, err
	}
	if len(answer.Transactions) != len(questions) {
		return nil, errShortResponse
	}
	all := make([][]error, len(questions))
	for i, q := range questions {
		for _, topic := range answer.Transactions[i].Topics {
			for _, p := range topic.Partitions {
				all[i] = append(all[i], transactionPeerError(p.ErrorCode))
			}
		}
		if len(all[i]) != len(q.Partitions) {
			return nil, errShortResponse
		}
	}
	return all, nil
}

// transactionPeerErrors maps error codes from other brokers to errors. For any other code, the
// sender retries.
var transactionPeerErrors = map[int16]error{
	3: replica.ErrUnknownPartition, 6: replica.ErrNotLeader, 7: replica.ErrTimeout,
	19: replica.ErrNotEnoughReplicas, 20: replica.ErrNotEnoughReplicasAfterAppend,
	47: logstore.ErrInvalidProducerEpoch, 48: replica.ErrNotInTransaction,
	49: replica.ErrInvalidProducerIDMapping, 51: replica.ErrConcurrentTransactions,
	52: logstore.ErrCoordinatorFenced, 56: logstore.ErrStorage,
	90: logstore.ErrInvalidProducerEpoch, 120: replica.ErrNotInTransaction,
}

func transactionPeerError(code int16) error {
	if code == 0 {
		return nil
	}
	if err := transactionPeerErrors[code]; err != nil {
		return err
	}
	return fmt.Errorf("%w: error code %d of another broker", replica.ErrNotEnoughReplicas, code)
}
