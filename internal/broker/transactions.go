package broker

import (
	"context"
	"strconv"
	"time"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/transactions"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

func (b *Broker) newTransactions() *coordinator.Transactions {
	return coordinator.NewTransactions(coordinator.TransactionOptions{
		NodeID: b.opts.NodeID, Replicas: b.replicas, Image: b.image, Await: b.await,
		Admin:  b.opts.Metadata,
		Config: transaction.Config{ProducerID: b.ids.Next},
		Connect: func(ctx context.Context, to metadata.Broker) (coordinator.Peer, error) {
			peer, err := b.dialPeer(ctx, to)
			return transactionPeer{peer}, err
		},
		WriteMarkers: b.writeMarkers, Reachable: b.metadataReachable,
		Registry: b.opts.Registry, Logger: b.logger,
	})
}

// metadataReachable reports whether the metadata image is current, as far as this broker knows.
// Metadata stores that do not implement Outage are always available.
func (b *Broker) metadataReachable() bool {
	store, ok := b.opts.Metadata.(interface {
		Outage(now time.Time) time.Duration
	})
	return !ok || store.Outage(time.Now()) == 0
}

// verifier is the broker's replica.Verifier. The type exists because the set of replicas is created
// before the coordinator that verifies transactions.
type verifier struct{ broker *Broker }

// Verify implements replica.Verifier.
func (v verifier) Verify(ctx context.Context, q replica.Verification) []error {
	return v.broker.transactions.Verify(ctx, q)
}

// writeMarkers writes transaction markers to partitions that this broker leads.
func (b *Broker) writeMarkers(ctx context.Context, markers []coordinator.PartitionMarker) []error {
	local := make([]replica.Marker, len(markers))
	for i, m := range markers {
		local[i] = replica.Marker{ID: m.Partition, End: logstore.EndTxn{
			ProducerID: m.Producer.ID, ProducerEpoch: m.Producer.Epoch, Commit: m.Commit,
			CoordinatorEpoch: m.CoordinatorEpoch, Version: m.Version,
		}}
	}
	return b.groups.WriteMarkers(ctx, local)
}

// transactionPeer implements coordinator.Peer over the Kafka protocol.
type transactionPeer struct{ *wire.Peer }

// WriteMarkers implements coordinator.Peer.
func (p transactionPeer) WriteMarkers(ctx context.Context,
	markers []coordinator.PartitionMarker) ([]error, error) {
	body, err := p.Do(ctx, transactions.WriteMarkersCall(markers))
	if err != nil {
		return nil, err
	}
	return transactions.DecodeWriteMarkers(body, len(markers))
}

// Verify implements coordinator.Peer.
func (p transactionPeer) Verify(ctx context.Context,
	questions []replica.Verification) ([][]error, error) {
	body, err := p.Do(ctx, transactions.VerifyCall(questions))
	if err != nil {
		return nil, err
	}
	return transactions.DecodeVerify(body, questions)
}

// KnownProducers implements coordinator.Peer.
func (p transactionPeer) KnownProducers(ctx context.Context,
	producers []int64) (coordinator.KnownProducers, error) {
	body, err := p.Do(ctx, transactions.KnownProducersCall(producers))
	if err != nil {
		return coordinator.KnownProducers{}, err
	}
	return transactions.DecodeKnownProducers(body)
}

// clientID returns the client id of this broker in its requests to other brokers.
func (b *Broker) clientID() string { return "broker-" + strconv.Itoa(int(b.opts.NodeID)) }
