package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// script is a Verifier whose answers come from a function. It stores the questions.
type script struct {
	asked  []Verification
	answer func(context.Context, Verification) []error
}

func (s *script) Verify(ctx context.Context, q Verification) []error {
	s.asked = append(s.asked, q)
	if s.answer != nil {
		return s.answer(ctx, q)
	}
	return make([]error, len(q.Partitions))
}

// transactionalBroker returns a broker that leads topic "a" with three partitions.
func transactionalBroker(t *testing.T) (*broker, *script) {
	b, s := newBroker(t), &script{}
	b.verifier = s
	b.topic("a", 3, nil)
	b.apply()
	return b, s
}

// within returns a batch in a transaction of producer 7.
func within(t *testing.T, epoch int16, sequence int32) []byte {
	t.Helper()
	return batchOf(t, record.Identity{ProducerID: 7, ProducerEpoch: epoch, BaseSequence: sequence,
		Transactional: true}, "x")
}

// transact produces one transactional batch to each of the partitions, and returns the errors.
func (b *broker) transact(transaction Transaction, batch []byte, indexes ...int32) (errs []error) {
	b.t.Helper()
	var batches []ProducePartition
	for _, index := range indexes {
		batches = append(batches, ProducePartition{ID: id("a", index), Batch: slices.Clone(batch)})
	}
	for _, result := range b.AppendTransactional(b.t.Context(), transaction,
		batches).Wait(b.t.Context(),
		time.Minute) {
		errs = append(errs, result.Err)
	}
	return errs
}

// mark writes a marker of producer 7 to partition 0.
func (b *broker) mark(end logstore.EndTxn) error {
	b.t.Helper()
	end.ProducerID = 7
	return b.AppendMarkers([]Marker{{ID: id("a", 0), End: end}}).Wait(b.t.Context(),
		time.Second)[0].Err
}

func (b *broker) leaderLog(index int32) *logstore.Log {
	b.t.Helper()
	log, err := b.Leader(id("a", index), -1)
	if err != nil {
		b.t.Fatal(err)
	}
	return log
}

// TestOnlyFirstBatchesAreVerified checks that a single question verifies the first batches of a
// transaction in all partitions of a request. Later batches must need no question until a marker
// has ended the transaction.
func TestOnlyFirstBatchesAreVerified(t *testing.T) {
	b, s := transactionalBroker(t)
	transaction := Transaction{ID: "payments", Add: true}
	want := func(stage string, errs []error, questions int) {
		t.Helper()
		if err := errors.Join(errs...); err != nil || len(s.asked) != questions {
			t.Fatalf("%s: %v; %d questions, want %d", stage, err, len(s.asked), questions)
		}
	}
	want("first batches", b.transact(transaction, within(t, 3, 0), 0, 1), 1)
	q := s.asked[0]
	if q.TransactionalID != "payments" || !q.Add {
		t.Errorf("asked %+v, want to add to payments", q)
	}
	if q.ProducerID != 7 || q.ProducerEpoch != 3 {
		t.Errorf("asked %+v, want producer 7 in epoch 3", q)
	}
	if !slices.Equal(q.Partitions, []PartitionID{id("a", 0), id("a", 1)}) {
		t.Errorf("asked %+v, want both partitions", q.Partitions)
	}
	want("second batches", b.transact(transaction, within(t, 3, 1), 0, 1), 1)
	want("first batch in another partition", b.transact(transaction, within(t, 3, 0), 0, 2), 2)
	if q = s.asked[1]; !slices.Equal(q.Partitions, []PartitionID{id("a", 2)}) {
		t.Errorf("asked %+v", q)
	}
	if err := b.mark(logstore.EndTxn{ProducerEpoch: 4, Version: 2, Commit: true}); err != nil {
		t.Fatal(err)
	}
	want("next transaction", b.transact(transaction, within(t, 4, 0), 0), 3)
}

// TestRefusedPartitionIsNotAppended checks that a coordinator's refusal for one partition does not
// prevent the append of the batch for another partition.
func TestRefusedPartitionIsNotAppended(t *testing.T) {
	for _, refusal := range []error{ErrNotInTransaction, ErrConcurrentTransactions,
		ErrInvalidProducerIDMapping, ErrNotEnoughReplicas, logstore.ErrInvalidProducerEpoch} {
		b, s := transactionalBroker(t)
		s.answer = func(context.Context, Verification) []error { return []error{refusal, nil} }
		errs := b.transact(Transaction{ID: "t"}, within(t, 0, 0), 0, 1)
		if !errors.Is(errs[0], refusal) || errs[1] != nil {
			t.Errorf("got %v, want %v and none", errs, refusal)
		}
		if b.leaderLog(0).LogEnd() != 0 || b.leaderLog(1).LogEnd() != 1 {
			t.Errorf("%v: logs end at %d and %d", refusal, b.leaderLog(0).LogEnd(),
				b.leaderLog(1).LogEnd())
		}
	}
}

// TestAbortBetweenVerificationAndAppend checks KAFKA-14884: the coordinator confirms the
// transaction, and aborts it before the batch is appended. The leader must ask again, and the
// coordinator then refuses the batch. The last stable offset must advance beyond the marker.
func TestAbortBetweenVerificationAndAppend(t *testing.T) {
	b, s := transactionalBroker(t)
	s.answer = func(context.Context, Verification) []error {
		if len(s.asked) > 1 {
			return []error{ErrNotInTransaction}
		}
		if err := b.mark(logstore.EndTxn{}); err != nil {
			t.Error(err)
		}
		return []error{nil}
	}
	errs := b.transact(Transaction{ID: "t"}, within(t, 0, 0), 0)
	log := b.leaderLog(0)
	if !errors.Is(errs[0], ErrNotInTransaction) || log.LogEnd() != 1 || log.LastStable() != 1 {
		t.Errorf("got %v, log end %d, last stable offset %d", errs, log.LogEnd(), log.LastStable())
	}
}

// TestFirstBatchWhilePreviousTransactionEnds checks KAFKA-18575: a transaction's first batch
// arrives while the previous transaction ends. The coordinator answers when that transaction is
// complete, and its marker is then in the log. The batch must be appended without a retry of the
// producer.
func TestFirstBatchWhilePreviousTransactionEnds(t *testing.T) {
	b, s := transactionalBroker(t)
	s.answer = func(context.Context, Verification) []error {
		if len(s.asked) == 1 {
			if err := b.mark(logstore.EndTxn{Commit: true}); err != nil {
				t.Error(err)
			}
		}
		return []error{nil}
	}
	errs := b.transact(Transaction{ID: "t", Add: true}, within(t, 0, 0), 0)
	if errs[0] != nil || len(s.asked) != 2 || b.leaderLog(0).LogEnd() != 2 {
		t.Errorf("got %v after %d questions, log end %d", errs, len(s.asked),
			b.leaderLog(0).LogEnd())
	}
	// This producer's previous transactions never complete.
	s.answer = func(context.Context, Verification) []error {
		if err := b.mark(logstore.EndTxn{ProducerEpoch: 1}); err != nil {
			t.Error(err)
		}
		return []error{nil}
	}
	s.asked = nil
	errs = b.transact(Transaction{ID: "t", Add: true}, within(t, 1, 0), 0)
	if !errors.Is(errs[0], logstore.ErrVerificationOutdated) || len(s.asked) != verifyAttempts {
		t.Errorf("got %v after %d questions", errs, len(s.asked))
	}
}

// TestOldEpochNeedsNoAnswer checks KAFKA-19690: a producer that was fenced by a timeout gets
// INVALID_PRODUCER_EPOCH, from which it recovers, even if its coordinator does not answer.
func TestOldEpochNeedsNoAnswer(t *testing.T) {
	b, s := transactionalBroker(t)
	if err := b.mark(logstore.EndTxn{ProducerEpoch: 5}); err != nil {
		t.Fatal(err)
	}
	errs := b.transact(Transaction{ID: "t"}, within(t, 4, 0), 0)
	if !errors.Is(errs[0], logstore.ErrInvalidProducerEpoch) || len(s.asked) > 0 {
		t.Errorf("got %v after %d questions", errs, len(s.asked))
	}
}

// TestVerificationTimesOut checks that a coordinator that does not answer delays a produce request
// only for a limited time.
func TestVerificationTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := transactionalBroker(t)
		s.answer = func(ctx context.Context, _ Verification) []error {
			<-ctx.Done()
			return []error{ErrNotEnoughReplicas}
		}
		began := time.Now()
		errs := b.transact(Transaction{ID: "t"}, within(t, 0, 0), 0)
		if took := time.Since(began); took != verifyTimeout || !errors.Is(errs[0],
			ErrNotEnoughReplicas) {
			t.Errorf("got %v after %v", errs, took)
		}
	})
}

// TestUnledPartitionIsNotVerified checks that a batch for a partition that this broker does not
// lead is refused without a question. The log's error would be fatal for the producer.
func TestUnledPartitionIsNotVerified(t *testing.T) {
	b, s := transactionalBroker(t)
	results := b.AppendTransactional(t.Context(), Transaction{ID: "t"},
		[]ProducePartition{{ID: id("none", 0), Batch: within(t, 0, 0)}}).Wait(t.Context(), 0)
	if !errors.Is(results[0].Err, ErrUnknownPartition) || len(s.asked) > 0 {
		t.Errorf("got %v after %d questions", results[0].Err, len(s.asked))
	}
}

// TestMarkerIsAcknowledgedOnceReplicated checks that a marker is acknowledged when the in-sync
// replicas have copied it. Until then the request must time out, and a repeated request must
// neither succeed nor write the marker again.
func TestMarkerIsAcknowledgedOnceReplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2, nil)
		n.nodes[1].verifier = &script{}
		n.settle(time.Second)
		n.nodes[1].AppendTransactional(t.Context(), Transaction{ID: "t"},
			[]ProducePartition{{ID: partitionA, Batch: within(t, 0, 0)}}).Wait(t.Context(),
			time.Second)
		n.settle(time.Second)
		n.nodes[2].disconnected.Store(true)
		end := logstore.EndTxn{ProducerID: 7, ProducerEpoch: 1, Version: 2, Commit: true}
		mark := func() error {
			return n.nodes[1].AppendMarkers([]Marker{{partitionA, end}}).Wait(t.Context(),
				time.Second)[0].Err
		}
		for range 3 {
			began := time.Now()
			if err := mark(); !errors.Is(err, ErrTimeout) || time.Since(began) > time.Second {
				t.Fatalf("got %v after %v", err, time.Since(began))
			}
		}
		if log := n.log(1); log.LogEnd() != 2 || log.LastStable() != 0 {
			t.Fatalf("log end %d, last stable offset %d", log.LogEnd(), log.LastStable())
		}
		n.nodes[2].disconnected.Store(false)
		n.settle(5 * time.Second)
		if err := mark(); err != nil || n.log(1).LogEnd() != 2 || n.log(1).LastStable() != 2 {
			t.Errorf("got %v, log end %d, last stable offset %d", err, n.log(1).LogEnd(),
				n.log(1).LastStable())
		}
	})
}

// TestMarkerNeedsMinInSyncReplicas checks that a partition below min.insync.replicas accepts no
// marker, and does not delay the markers of other partitions.
func TestMarkerNeedsMinInSyncReplicas(t *testing.T) {
	b, _ := transactionalBroker(t)
	topic := b.topic("b", 1, nil)
	topic.Settings.MinInSyncReplicas = 2
	b.apply()
	// If the partition delayed the others, the test would exceed the test binary's timeout.
	results := b.AppendMarkers([]Marker{{ID: id("b", 0)}, {ID: id("a", 0)},
		{ID: id("none", 0)}}).Wait(t.Context(), time.Hour)
	for i, want := range []error{ErrNotEnoughReplicas, nil, ErrUnknownPartition} {
		if !errors.Is(results[i].Err, want) {
			t.Errorf("marker %d: got %v, want %v", i, results[i].Err, want)
		}
	}
}
