package coordinator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/internaltopic"
)

// verifierFunc is a transaction coordinator whose answers come from a function.
type verifierFunc func(replica.Verification) error

func (f verifierFunc) Verify(_ context.Context, q replica.Verification) []error {
	return []error{f(q)}
}

// inVerifyingBroker runs a test with a broker that leads the offsets topic and verifies
// transactions with ask.
func inVerifyingBroker(t *testing.T, ask verifierFunc, test func(*broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBrokerWith(t, internaltopic.NewVerifying(t, vfs.NewMem(), "/data",
			metadata.ID{1}, ask))
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		test(b)
	})
}

func confirm(replica.Verification) error { return nil }

// commitIn commits an offset of topic t in a transaction of producer 7.
func (b *broker) commitIn(epoch int16, offset int64) error {
	errs, err := b.CommitTransactional(b.t.Context(), TransactionalCommit{
		Transaction: replica.Transaction{ID: "payments", Add: true}, ProducerID: 7,
		ProducerEpoch: epoch, Commit: group.Commit{Group: "g", Generation: -1,
			Offsets: []group.CommitOffset{{Topic: "t",
				Offset: group.Offset{Offset: offset, LeaderEpoch: -1, ExpireMs: -1}}}},
	})
	if err == nil {
		err = errs[0]
	}
	return err
}

// mark ends the transaction of producer 7 in the given epoch. The markers have transaction version
// 2.
func (b *broker) mark(epoch int16, commit bool) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	return b.Mark(ctx, 0, logstore.EndTxn{ProducerID: 7, ProducerEpoch: epoch + 1, Version: 2,
		Commit: commit})
}

func (b *broker) wantOffset(stage string, want int64, stable bool) {
	b.t.Helper()
	found, unstable, err := b.CommittedFor(b.t.Context(), "g", group.Reader{Epoch: -1},
		[]group.TopicPartition{{Topic: "t"}})
	if err != nil || found[0].Offset.Offset != want || unstable[0] == stable {
		b.t.Errorf("%s: got %+v, unstable %v, %v, want offset %d, stable %t", stage, found, unstable,
			err, want, stable)
	}
}

// TestTransactionalOffsetsSurviveFailover checks that a transactional offset is pending until the
// marker, even if there are failovers before and after the marker.
func TestTransactionalOffsetsSurviveFailover(t *testing.T) {
	inVerifyingBroker(t, confirm, func(b *broker) {
		failover := func(epoch int32) {
			b.Lead(epoch, self)
			b.awaitLoaded()
		}
		must(t, b.commit(5, "", -1))
		must(t, b.commitIn(0, 10))
		b.wantOffset("pending", 5, false)
		failover(2)
		b.wantOffset("pending, loaded", 5, false)
		must(t, b.mark(0, false))
		b.wantOffset("aborted", 5, true)
		must(t, b.commitIn(1, 11))
		must(t, b.commitIn(1, 12))
		must(t, b.mark(1, true))
		b.wantOffset("committed", 12, true)
		must(t, b.mark(1, true)) // repeated, because the coordinator has not received the answer
		failover(3)
		b.wantOffset("committed, loaded", 12, true)
	})
}

// TestTransactionalCommitIsVerified checks that a transaction's first commit is verified, and that
// commits of a fenced producer and of a former member are refused.
func TestTransactionalCommitIsVerified(t *testing.T) {
	var asked []replica.Verification
	var answer error
	inVerifyingBroker(t, func(q replica.Verification) error {
		asked = append(asked, q)
		return answer
	}, func(b *broker) {
		for _, test := range []struct{ answer, want error }{
			{replica.ErrNotInTransaction, replica.ErrNotInTransaction},
			{replica.ErrConcurrentTransactions, replica.ErrConcurrentTransactions},
			{replica.ErrNotEnoughReplicas, ErrNotAvailable},
			{logstore.ErrInvalidProducerEpoch, logstore.ErrInvalidProducerEpoch},
		} {
			answer = test.answer
			if err := b.commitIn(0, 10); !errors.Is(err, test.want) {
				t.Errorf("answer %v: got %v, want %v", test.answer, err, test.want)
			}
		}
		b.wantOffset("refused", -1, true)
		answer, asked = nil, nil
		must(t, b.commitIn(0, 10))
		must(t, b.commitIn(0, 11))
		if len(asked) != 1 || len(asked[0].Partitions) != 1 {
			t.Fatalf("asked %+v, want one question about one partition", asked)
		}
		if asked[0].TransactionalID != "payments" || asked[0].ProducerID != 7 {
			t.Errorf("asked %+v, want payments of producer 7", asked[0])
		}
		if !asked[0].Add || asked[0].Partitions[0].Topic != OffsetsTopic {
			t.Errorf("asked %+v, want to add the offsets topic", asked[0])
		}
		must(t, b.mark(0, true))
		if err := b.commitIn(0, 12); !errors.Is(err, logstore.ErrInvalidProducerEpoch) {
			t.Errorf("old epoch: %v", err)
		}
		b.wantOffset("after a fenced commit", 11, true)
	})
}

// TestTransactionalCommitAfterTheMarkerIsRefused checks that a commit fails with a retriable error
// if its transaction ends between the verification and the append.
func TestTransactionalCommitAfterTheMarkerIsRefused(t *testing.T) {
	var b *broker
	inVerifyingBroker(t, func(replica.Verification) error {
		return b.Mark(b.t.Context(), 0, logstore.EndTxn{ProducerID: 7})
	}, func(node *broker) {
		b = node
		if err := b.commitIn(0, 10); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("got %v", err)
		}
		b.wantOffset("refused", -1, true)
	})
}

// TestMarkerOfOffsetsWaitsForHighWatermark checks that a marker is acknowledged only when its
// effect is visible and replicated (KAFKA-17507). Broker 2 does not run, so the high watermark does
// not advance.
func TestMarkerOfOffsetsWaitsForHighWatermark(t *testing.T) {
	inVerifyingBroker(t, confirm, func(b *broker) {
		must(t, b.commitIn(0, 10))
		b.Lead(2, self, 2)
		b.awaitLoadedUnstored()
		for range 2 {
			if err := b.mark(0, true); !errors.Is(err, replica.ErrTimeout) {
				t.Errorf("got %v", err)
			}
		}
		b.Lead(3, self)
		b.awaitLoaded()
		must(t, b.mark(0, true))
		b.wantOffset("committed", 10, true)
		log, err := b.Replicas.Leader(replica.PartitionID{Topic: OffsetsTopic}, -1)
		must(t, err)
		if log.LogEnd() != 2 {
			t.Errorf("log end %d, want one offset and one marker", log.LogEnd())
		}
	})
}

// TestMarkerOfAnotherBroker checks that a broker that does not lead a partition rejects the
// partition's markers with a partition error.
func TestMarkerOfAnotherBroker(t *testing.T) {
	inVerifyingBroker(t, confirm, func(b *broker) {
		if err := b.Mark(b.t.Context(), 3, logstore.EndTxn{ProducerID: 7}); !errors.Is(err,
			replica.ErrNotLeader) {
			t.Errorf("got %v", err)
		}
		b.Lead(2, 2, self)
		synctest.Wait()
		if err := b.mark(0, true); !errors.Is(err, replica.ErrNotLeader) {
			t.Errorf("got %v", err)
		}
	})
}
