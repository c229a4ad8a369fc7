package runtime

import (
	"context"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// Producer identifies the producer of the transaction to which a call's records belong.
type Producer struct {
	ID    int64
	Epoch int16
	// Verified is the result of the transaction coordinator's verification (replica.Set.VerifyIn).
	Verified logstore.Verified
}

// noTransaction is the Producer of records that belong to no transaction.
var noTransaction = Producer{ID: state.NoProducer, Epoch: -1}

// identity returns the identity of a batch of n records. The sequence numbers of a transactional
// batch are 0, and the log does not check them: a client repeats its request until it succeeds, and
// repeated records have no further effect.
func (p Producer) identity(n int) record.Identity {
	id := record.Identity{LastOffsetDelta: int32(n - 1), LeaderEpoch: -1, ProducerID: p.ID,
		ProducerEpoch: p.Epoch, BaseSequence: -1}
	if p.ID != state.NoProducer {
		id.BaseSequence, id.Transactional = 0, true
	}
	return id
}

// Verify asks the transaction coordinator whether the producer's transaction includes the shard's
// partition. q.Partitions must be empty.
func (s *Shard[S, K, A]) Verify(ctx context.Context, q replica.Verification) (Producer, error) {
	q.Partitions = []replica.PartitionID{s.id}
	verified, err := s.runtime.opts.Replicas.VerifyIn(ctx, s.epoch, q)
	return Producer{q.ProducerID, q.ProducerEpoch, verified}, err
}

// CallTransactional is like Call, for functions whose records belong to a transaction. The machine
// must be a TransactionalMachine. The records take effect when the transaction is committed.
func CallTransactional[T any, S Machine[K, A], K comparable, A any](ctx context.Context,
	s *Shard[S, K, A], producer Producer,
	f func(now time.Time, machine S) (T, state.Output[A], error)) (T, error) {
	done := make(chan result[T], 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			value, out, err := f(now, s.machine)
			if _, stored := s.store(now, out, producer); err == nil {
				err = stored
			}
			done <- result[T]{value, err, s.last}
		},
		fail: func(err error) { done <- result[T]{err: err, last: -1} },
	})
	return await(ctx, s, pushed, done)
}

// Mark appends the marker that ends a producer's transaction, and passes the marker to the machine,
// which must be a TransactionalMachine. It returns once the marker is below the high watermark. So
// the transaction's coordinator completes the transaction only after the marker's effect has become
// visible (KAFKA-17507).
func (s *Shard[S, K, A]) Mark(ctx context.Context, end logstore.EndTxn) error {
	done := make(chan result[struct{}], 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			err := s.mark(now, end)
			done <- result[struct{}]{err: err, last: s.last}
		},
		fail: func(err error) { done <- result[struct{}]{err: err, last: -1} },
	})
	_, err := await(ctx, s, pushed, done)
	return err
}

func (s *Shard[S, K, A]) mark(now time.Time, end logstore.EndTxn) error {
	appended, err := s.runtime.opts.Replicas.AppendMarkerIn(s.epoch,
		replica.Marker{ID: s.id, End: end})
	if err != nil {
		return err
	}
	s.last = max(s.last, appended.LastOffset)
	if appended.Duplicate {
		return nil
	}
	answers, err := s.transactional.ReplayMarker(now,
		state.Marker{ProducerID: end.ProducerID, Commit: end.Commit})
	if err != nil { // later coordinators cannot replay the marker either
		s.inconsistent = true
		return fmt.Errorf("replay marker at offset %d: %w", appended.LastOffset, err)
	}
	for _, a := range answers {
		s.answer(a)
	}
	return nil
}

// ShardAt returns the shard of a partition. It returns ErrNotCoordinator if this broker does not
// lead the partition.
func (r *Runtime[S, K, A]) ShardAt(index int32) (*Shard[S, K, A], error) {
	if s := r.view.Load().shards[index]; s != nil {
		return s, nil
	}
	return nil, ErrNotCoordinator
}
