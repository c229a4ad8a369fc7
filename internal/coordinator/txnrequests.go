package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// ErrInvalidTransactionalID means that the transactional id is empty.
var ErrInvalidTransactionalID = errors.New("invalid transactional id")

func (t *Transactions) shard(id string) (*txnHandle, error) {
	if id == "" {
		return nil, ErrInvalidTransactionalID
	}
	return t.runtime.Shard(id)
}

// wait runs a request in the transactional id's shard and waits for the answer.
func (t *Transactions) wait(ctx context.Context, id string,
	run func(now time.Time, s *txnShard, to transaction.Token) transaction.Output) (
	transaction.Result, error) {
	s, err := t.shard(id)
	if err != nil {
		return transaction.Result{}, err
	}
	a, err := runtime.Wait(ctx, s, run)
	return a.Result, err
}

// Init gives a producer its id and epoch. It waits for at most transaction.ParkedMax until an
// ongoing transaction has been aborted.
func (t *Transactions) Init(ctx context.Context, r transaction.Init) (transaction.Producer, error) {
	result, err := t.wait(ctx, r.ID, func(now time.Time, s *txnShard,
		to transaction.Token) transaction.Output {
		r.To = to
		return s.Init(now, r)
	})
	return result.Producer, err
}

// Add adds partitions to a transaction. If r.Verify is set, it only returns the partitions that the
// transaction does not include.
func (t *Transactions) Add(ctx context.Context, r transaction.Add) (absent []transaction.Partition,
	err error) {
	result, err := t.wait(ctx, r.ID, func(now time.Time, s *txnShard,
		to transaction.Token) transaction.Output {
		r.To = to
		return s.Add(now, r)
	})
	return result.Absent, err
}

// End commits or aborts a transaction. It returns once the outcome is decided, and does not wait
// for the markers.
func (t *Transactions) End(ctx context.Context, r transaction.End) (transaction.Producer, error) {
	result, err := t.wait(ctx, r.ID, func(now time.Time, s *txnShard,
		to transaction.Token) transaction.Output {
		r.To = to
		return s.End(now, r)
	})
	return result.Producer, err
}

// Abort aborts an ongoing transaction at an administrator's request, and fences the producer.
func (t *Transactions) Abort(ctx context.Context, id string) error {
	s, err := t.shard(id)
	if err != nil {
		return err
	}
	_, err = runtime.Call(ctx, s, func(now time.Time, s *txnShard) (struct{}, transaction.Output,
		error) {
		out, err := s.Abort(now, id)
		return struct{}{}, out, err
	})
	return err
}

// Describe returns the state of a transactional id.
func (t *Transactions) Describe(ctx context.Context, id string) (transaction.Description, error) {
	s, err := t.shard(id)
	if err != nil {
		return transaction.Description{}, err
	}
	return runtime.Call(ctx, s, func(_ time.Time, s *txnShard) (transaction.Description,
		transaction.Output, error) {
		described, err := s.Describe(id)
		return described, transaction.Output{}, err
	})
}

// List returns the selected transactional ids that this broker coordinates. It returns ErrLoading
// if a shard is not loaded yet.
func (t *Transactions) List(ctx context.Context, f transaction.Filter) ([]transaction.Description,
	error) {
	var all []transaction.Description
	for _, s := range t.runtime.Shards() {
		listed, err := runtime.Call(ctx, s, func(now time.Time, s *txnShard) (
			[]transaction.Description, transaction.Output, error) {
			return s.List(now, f), transaction.Output{}, nil
		})
		if err != nil && !errors.Is(err, ErrNotCoordinator) {
			return nil, err
		}
		all = append(all, listed...)
	}
	return all, nil
}

// Verify implements replica.Verifier.
func (t *Transactions) Verify(ctx context.Context, q replica.Verification) []error {
	if q.TransactionalID == "" {
		return all(len(q.Partitions), ErrInvalidTransactionalID)
	}
	leader, ok := t.runtime.Lookup(q.TransactionalID)
	switch {
	case !ok:
		return all(len(q.Partitions), fmt.Errorf("%w: no transaction coordinator",
			replica.ErrNotEnoughReplicas))
	case leader.ID == t.opts.NodeID:
		return t.VerifyHere(ctx, q)
	}
	return t.verifier.ask(ctx, leader, q)
}

// VerifyHere answers a verification for a transactional id that this broker coordinates.
func (t *Transactions) VerifyHere(ctx context.Context, q replica.Verification) []error {
	r := transaction.Add{ID: q.TransactionalID, Verify: !q.Add,
		Producer:   transaction.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch},
		Partitions: make([]transaction.Partition, len(q.Partitions))}
	if q.Add {
		r.Version = transaction.EpochBumpVersion
	}
	for i, p := range q.Partitions {
		r.Partitions[i] = transaction.Partition{Topic: p.Topic, Index: p.Index}
	}
	absent, err := t.Add(ctx, r)
	if err != nil {
		return all(len(q.Partitions), verificationAnswer(err))
	}
	errs := make([]error, len(q.Partitions))
	for i, p := range r.Partitions {
		for _, missing := range absent {
			if missing == p {
				errs[i] = replica.ErrNotInTransaction
			}
		}
	}
	return errs
}

// verificationAnswer converts the coordinator's error for the partition's leader. After
// ErrNotEnoughReplicas the producer sends its batch again.
func verificationAnswer(err error) error {
	switch {
	case errors.Is(err, transaction.ErrInvalidMapping):
		return fmt.Errorf("%w: %w", replica.ErrInvalidProducerIDMapping, err)
	case errors.Is(err, transaction.ErrFenced):
		return fmt.Errorf("%w: %w", logstore.ErrInvalidProducerEpoch, err)
	case errors.Is(err, transaction.ErrConcurrent):
		return fmt.Errorf("%w: %w", replica.ErrConcurrentTransactions, err)
	case errors.Is(err, transaction.ErrInvalidState):
		return fmt.Errorf("%w: %w", replica.ErrNotInTransaction, err)
	}
	return fmt.Errorf("%w: verify transaction: %w", replica.ErrNotEnoughReplicas, err)
}

func all(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
