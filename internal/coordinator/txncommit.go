package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// TransactionalCommit is a TxnOffsetCommit request: offsets that a producer commits in its
// transaction.
type TransactionalCommit struct {
	group.Commit
	// Transaction identifies the transaction. If Transaction.Add is set, the commit adds the partition
	// of __consumer_offsets to the transaction (transaction version 2).
	Transaction   replica.Transaction
	ProducerID    int64
	ProducerEpoch int16
}

// CommitTransactional stores offsets in a producer's transaction. They become committed offsets
// when the transaction is committed. It returns one error per offset, in the order of c.Offsets, or
// a single error for the whole request, which may be an error of replica.Verifier.
//
// CommitTransactional asks the transaction coordinator before the shard checks the member and its
// generation, so that no other request runs between the shard's check and the append.
func (g *Groups) CommitTransactional(ctx context.Context, c TransactionalCommit) ([]error, error) {
	s, err := g.shard(c.Group, false)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		errs, err := commitOnce(ctx, s, &c)
		if errors.Is(err, logstore.ErrVerificationOutdated) && attempt < commitAttempts {
			continue
		}
		if err == nil {
			g.metrics.committed.Add(float64(len(errs)))
		}
		return errs, err
	}
}

// commitAttempts is the maximum number of times that a commit is verified. A verification may wait
// for the end of the producer's previous transaction. By then that transaction's marker has been
// written, so the verification is outdated.
const commitAttempts = 3

func commitOnce(ctx context.Context, s *shard, c *TransactionalCommit) ([]error, error) {
	producer, err := s.Verify(ctx, replica.Verification{TransactionalID: c.Transaction.ID,
		ProducerID: c.ProducerID, ProducerEpoch: c.ProducerEpoch, Add: c.Transaction.Add})
	if err != nil {
		return nil, commitVerificationError(err)
	}
	return runtime.CallTransactional(ctx, s, producer,
		func(now time.Time, s *groupShard) ([]error, group.Output, error) {
			return s.CommitTransactional(now, c.Commit)
		})
}

// commitVerificationError returns the error for a commit whose verification has failed. It converts
// partition errors, because a coordinator's clients do not know them.
func commitVerificationError(err error) error {
	switch {
	case errors.Is(err, replica.ErrNotEnoughReplicas):
		return fmt.Errorf("%w: verify transaction: %w", ErrNotAvailable, err)
	case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrFencedLeaderEpoch),
		errors.Is(err, replica.ErrUnknownLeaderEpoch),
		errors.Is(err, replica.ErrUnknownPartition):
		return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
	}
	return err
}

// Mark writes the marker that ends a producer's transaction to a partition of __consumer_offsets.
// It returns once the transaction's offsets are visible and the marker is below the high watermark.
// While the shard loads, Mark fails with replica.ErrNotLeader. Its other errors are those of
// replica.Set.AppendMarkers.
func (g *Groups) Mark(ctx context.Context, partition int32, end logstore.EndTxn) error {
	s, err := g.runtime.ShardAt(partition)
	if err == nil {
		err = s.Mark(ctx, end)
	}
	switch {
	case errors.Is(err, replica.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return replica.ErrTimeout
	case errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrLoading):
		return fmt.Errorf("%w: %w", replica.ErrNotLeader, err)
	case errors.Is(err, ErrNotAvailable):
		return fmt.Errorf("%w: %w", replica.ErrNotEnoughReplicas, err)
	}
	return err
}

// markerWait limits how long WriteMarkers waits for the replication of the markers.
const markerWait = time.Second

// WriteMarkers writes transaction markers to partitions that this broker leads, and waits until
// they are below the high watermarks. It returns one error for each marker. If a partition's
// replicas do not copy the marker within markerWait, the error is replica.ErrTimeout, so one
// partition delays the others for no longer than this. The caller must repeat the markers that have
// failed.
func (g *Groups) WriteMarkers(ctx context.Context, markers []replica.Marker) []error {
	errs := make([]error, len(markers))
	ctx, cancel := context.WithTimeout(ctx, markerWait)
	defer cancel()
	var groups sync.WaitGroup
	var others []replica.Marker
	var indexes []int // index in markers of each element of others
	for i, m := range markers {
		if m.ID.Topic == OffsetsTopic {
			groups.Go(func() { errs[i] = g.Mark(ctx, m.ID.Index, m.End) })
			continue
		}
		others, indexes = append(others, m), append(indexes, i)
	}
	for i, result := range g.opts.Replicas.AppendMarkers(others).Wait(ctx, markerWait) {
		errs[indexes[i]] = result.Err
	}
	groups.Wait()
	return errs
}
