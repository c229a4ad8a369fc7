package transactions

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// Partition leaders ask the transaction coordinators whether they know the producer of an open
// transaction. They send ListTransactions with the producer ids and a private tagged field:
//
//	KnownTag in the request, empty: the response includes all transactional ids
//	KnownTag in the response: for each partition of __transaction_state that it includes,
//	    its number and the leader epoch in which it is loaded, of 4 bytes each, big-endian
//
// A response without the field is not used, because it does not report which partitions it
// includes.

// KnownTag is far above the tag numbers that Kafka uses; see followerTag.
const KnownTag = 0x485a

// KnownVersion is the ListTransactions version that brokers send to each other.
const KnownVersion = 2

const knownTagBytes = 8 // bytes per partition

// listTransactionsResponseShape describes the fields in the response to a broker.
var listTransactionsResponseShape = api.Shape{
	api.Fixed(4), api.Fixed(2), api.PlainArray(api.Text()), api.Array(api.Text(), api.Fixed(8),
		api.Text()),
}

var errIncompleteAnswer = errors.New("the broker does not report what its answer includes")

// KnownProducersCall returns the request whose response is coordinator.KnownProducers.
func KnownProducersCall(producers []int64) wire.Call {
	req := kmsg.NewPtrListTransactionsRequest()
	req.Version, req.ProducerIDFilters = KnownVersion, producers
	req.UnknownTags.Set(KnownTag, nil)
	return wire.Call{Key: api.KeyListTransactions, Version: KnownVersion, Flexible: true,
		Append: req.AppendTo}
}

// DecodeKnownProducers decodes the response to a KnownProducersCall.
func DecodeKnownProducers(body []byte) (known coordinator.KnownProducers, err error) {
	if err := listTransactionsResponseShape.Check(KnownVersion, true, body); err != nil {
		return known, err
	}
	answer := kmsg.ListTransactionsResponse{Version: KnownVersion}
	if err := answer.ReadFrom(body); err != nil {
		return known, err
	}
	if err := transactionPeerError(answer.ErrorCode); err != nil {
		return known, err
	}
	err = errIncompleteAnswer
	answer.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag != KnownTag || len(value)%knownTagBytes != 0 {
			return
		}
		err = nil
		for part := range slices.Chunk(value, knownTagBytes) {
			known.Loaded = append(known.Loaded, coordinator.StatePartition{
				Index:       int32(binary.BigEndian.Uint32(part)),
				LeaderEpoch: int32(binary.BigEndian.Uint32(part[4:]))})
		}
	})
	known.Open = map[int64]bool{}
	for _, s := range answer.TransactionStates {
		// A state that only a later version knows counts as open, so that nothing is aborted.
		ended := slices.Contains([]string{transaction.Empty.String(),
			transaction.CompleteCommit.String(), transaction.CompleteAbort.String()},
			s.TransactionState)
		known.Open[s.ProducerID] = known.Open[s.ProducerID] || !ended
	}
	return known, err
}

// asksAllProducers reports whether the request is a KnownProducersCall.
func asksAllProducers(req *kmsg.ListTransactionsRequest) (asks bool) {
	req.UnknownTags.Each(func(tag uint32, _ []byte) { asks = asks || tag == KnownTag })
	return asks
}

// knownProducers responds to another broker. The response is not filtered by ACLs; instead, the
// sender must be allowed ClusterAction.
func (h *Handler) knownProducers(ctx context.Context, raw *wire.Request,
	req *kmsg.ListTransactionsRequest) wire.Reply {
	response, result := kmsg.NewPtrListTransactionsResponse(), h.Outcome()
	response.Version = req.Version
	var known coordinator.KnownProducers
	err := h.Authorize(raw, api.ClusterAction, api.ClusterName)
	if err == nil {
		api.Exempt(ctx) // the sender may be a broker without a certificate
		known, err = h.Transactions.KnownHere(ctx, req.ProducerIDFilters)
	}
	if response.ErrorCode = result.Code(err); err == nil {
		var loaded []byte
		for _, p := range known.Loaded {
			loaded = binary.BigEndian.AppendUint32(loaded, uint32(p.Index))
			loaded = binary.BigEndian.AppendUint32(loaded, uint32(p.LeaderEpoch))
		}
		response.UnknownTags.Set(KnownTag, loaded)
	}
	for id, open := range known.Open {
		state := kmsg.NewListTransactionsResponseTransactionState()
		state.ProducerID, state.TransactionState = id, transaction.CompleteAbort.String()
		if open {
			state.TransactionState = transaction.Ongoing.String()
		}
		response.TransactionStates = append(response.TransactionStates, state)
	}
	return api.Reply(response, result)
}
