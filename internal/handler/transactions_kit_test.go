package handler

import (
	"context"
	"errors"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// ownVerifier verifies transactions with the broker's own transaction coordinator, which is created
// after the replicas.
type ownVerifier struct{ *broker }

func (v ownVerifier) Verify(ctx context.Context, q replica.Verification) []error {
	return v.txns.Verify(ctx, q)
}

// newTransactions returns a transaction coordinator that cannot reach any other broker.
func (b *broker) newTransactions() *coordinator.Transactions {
	return coordinator.NewTransactions(coordinator.TransactionOptions{
		NodeID: self, Replicas: b.set, Image: b.image.Load, Await: b.await, Admin: b,
		Config: transaction.Config{ProducerID: func() (int64, error) {
			return 1000 + b.transactional.Add(1), nil
		}},
		Connect: func(context.Context, metadata.Broker) (coordinator.Peer, error) {
			return nil, errors.New("the test kit runs one broker")
		},
		WriteMarkers: func(ctx context.Context, markers []coordinator.PartitionMarker) []error {
			local := make([]replica.Marker, len(markers))
			for i, m := range markers {
				local[i] = replica.Marker{ID: m.Partition, End: logstore.EndTxn{
					ProducerID: m.Producer.ID, ProducerEpoch: m.Producer.Epoch, Commit: m.Commit,
					CoordinatorEpoch: m.CoordinatorEpoch, Version: m.Version}}
			}
			return b.groups.WriteMarkers(ctx, local)
		},
	})
}
