package coordinator

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/internaltopic"
)

// txnBroker runs Transactions with a real log of __transaction_state. Its connections to other
// brokers, and the partitions that this broker leads, are replaced by functions that record the
// markers.
type txnBroker struct {
	*Transactions
	*internaltopic.Broker
	t *testing.T

	mu      sync.Mutex
	markers []PartitionMarker // all markers that were sent, including refused ones
	to      []int32           // broker to which each element of markers was sent
	refuse  error             // error with which markers are refused; nil if they are written
	stuck   string            // topic whose markers time out
	asked   []replica.Verification
	answer  error // answer to verifications
	dials   int
	offline bool           // true if the metadata image may be old
	known   KnownProducers // answer of other brokers to KnownProducers
}

// txnPeer is the connection to a broker in the metadata image.
type txnPeer struct {
	*txnBroker
	to int32
}

func (p txnPeer) Close() error { return nil }

func (p txnPeer) WriteMarkers(_ context.Context, markers []PartitionMarker) ([]error, error) {
	return p.write(p.to, markers), nil
}

func (p txnPeer) KnownProducers(context.Context, []int64) (KnownProducers, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known, nil
}

func (p txnPeer) Verify(_ context.Context, questions []replica.Verification) ([][]error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, questions...)
	answers := make([][]error, len(questions))
	for i, q := range questions {
		answers[i] = all(len(q.Partitions), p.answer)
	}
	return answers, nil
}

func (b *txnBroker) write(to int32, markers []PartitionMarker) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := all(len(markers), b.refuse)
	for i, m := range markers {
		b.markers, b.to = append(b.markers, m), append(b.to, to)
		if m.Partition.Topic == b.stuck {
			errs[i] = replica.ErrTimeout
		}
	}
	return errs
}

// sent returns the markers that were sent since the previous call of sent, and the brokers to which
// they were sent.
func (b *txnBroker) sent() (markers []PartitionMarker, to []int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	markers, to = b.markers, b.to
	b.markers, b.to = nil, nil
	return markers, to
}

func (b *txnBroker) setRefusal(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = err
}

func newTxnBroker(t *testing.T) *txnBroker {
	b := &txnBroker{t: t, Broker: internaltopic.New(t, vfs.NewMem(), "/data", metadata.ID{1})}
	b.Topic.Name = metadata.TransactionsTopic
	b.OtherTopics = []*metadata.Topic{dataTopic(internaltopic.Self, 2)}
	next := int64(100)
	b.Transactions = NewTransactions(TransactionOptions{
		NodeID: internaltopic.Self, Replicas: b.Replicas, Image: b.Image, Await: b.AwaitImage,
		Admin: b, Registry: prometheus.NewRegistry(),
		Config: transaction.Config{ProducerID: func() (int64, error) { next++; return next, nil }},
		Reachable: func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return !b.offline
		},
		Connect: func(_ context.Context, to metadata.Broker) (Peer, error) {
			b.dials++
			return txnPeer{b, to.ID}, nil
		},
		WriteMarkers: func(_ context.Context, markers []PartitionMarker) []error {
			return b.write(internaltopic.Self, markers)
		},
	})
	b.Coordinator = b.Transactions
	return b
}

// dataTopic returns the topic t. Each of the given brokers leads one of its partitions.
func dataTopic(leaders ...int32) *metadata.Topic {
	topic := &metadata.Topic{Name: "t", ID: metadata.ID{9}}
	for i, leader := range leaders {
		topic.Partitions = append(topic.Partitions, &metadata.Partition{Index: int32(i),
			Replicas: []int32{2}, Leader: leader, LeaderEpoch: 1, ISR: []int32{2}})
	}
	return topic
}

func (b *txnBroker) awaitLoaded() {
	b.AwaitLoaded(func() bool {
		_, err := b.Describe(b.t.Context(), "a")
		return err == nil || errors.Is(err, transaction.ErrNotFound)
	})
}

// begin begins a transaction of version 2 that includes both partitions of topic t.
func (b *txnBroker) begin() transaction.Producer {
	b.t.Helper()
	p, err := b.Init(b.t.Context(), transaction.Init{ID: "a", Timeout: time.Minute,
		Expected: transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}})
	if err == nil {
		_, err = b.Add(b.t.Context(), transaction.Add{ID: "a", Producer: p, Version: 2,
			Partitions: []transaction.Partition{{Topic: "t", Index: 0}, {Topic: "t", Index: 1}}})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *txnBroker) commit(p transaction.Producer) {
	b.t.Helper()
	next, err := b.End(b.t.Context(), transaction.End{ID: "a", Producer: p, Commit: true,
		Version: 2})
	if err != nil || next.Epoch != p.Epoch+1 {
		b.t.Fatalf("got %v, %v", next, err)
	}
}

func (b *txnBroker) wantPhase(want transaction.Phase) {
	b.t.Helper()
	synctest.Wait()
	if got, err := b.Describe(b.t.Context(), "a"); got.Phase != want || err != nil {
		b.t.Errorf("got phase %s, %v, want %s", got.Phase, err, want)
	}
}

func testTransactions(t *testing.T, test func(*txnBroker)) {
	synctest.Test(t, func(t *testing.T) {
		b := newTxnBroker(t)
		defer b.Stop()
		b.Lead(1, internaltopic.Self)
		b.awaitLoaded()
		test(b)
	})
}

func TestMarkersAreSentUntilTheyAreWritten(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.setRefusal(replica.ErrTimeout)
		b.commit(b.begin())
		b.wantPhase(transaction.PrepareCommit)
		markers, to := b.sent()
		if len(markers) != 2 || to[0] == to[1] {
			t.Fatalf("sent %+v to %v, want a marker to each of two brokers", markers, to)
		}
		want := PartitionMarker{Partition: markers[0].Partition, Commit: true,
			Producer: transaction.Producer{ID: 101, Epoch: 1}, CoordinatorEpoch: 1, Version: 2}
		if markers[0] != want {
			t.Errorf("sent %+v, want %+v", markers[0], want)
		}
		time.Sleep(10 * time.Second)
		if markers, _ = b.sent(); len(markers) < 20 || len(markers) > 40 {
			t.Errorf("sent %d markers in 10 s, want about 30", len(markers))
		}
		b.setRefusal(nil)
		time.Sleep(markerDelayMax)
		b.wantPhase(transaction.CompleteCommit)
		b.sent()
		time.Sleep(time.Minute)
		if markers, _ := b.sent(); len(markers) > 0 {
			t.Errorf("sent %+v again", markers)
		}
	})
}

// TestMarkerOfEarlierEpochIsWritten checks that a marker counts as written if the log knows a later
// epoch of the producer.
func TestMarkerOfEarlierEpochIsWritten(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.setRefusal(logstore.ErrInvalidProducerEpoch)
		b.commit(b.begin())
		b.wantPhase(transaction.CompleteCommit)
	})
}

func TestMarkersFollowTheLeader(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.setRefusal(replica.ErrNotLeader)
		b.commit(b.begin())
		time.Sleep(5 * time.Second)
		b.sent()
		b.setRefusal(nil)
		b.OtherTopics = []*metadata.Topic{dataTopic(2, internaltopic.Self)}
		b.Lead(1, internaltopic.Self)
		b.wantPhase(transaction.CompleteCommit) // must succeed without a retry
		markers, to := b.sent()
		for i, m := range markers {
			if want := []int32{2, internaltopic.Self}[m.Partition.Index]; to[i] != want {
				t.Errorf("marker for %v was sent to broker %d, want %d", m.Partition, to[i], want)
			}
		}
	})
}

func TestMarkerForDeletedTopicIsDropped(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		p := b.begin()
		b.OtherTopics = nil
		b.Lead(1, internaltopic.Self)
		b.commit(p)
		time.Sleep(absentMax - time.Second)
		b.wantPhase(transaction.PrepareCommit)
		time.Sleep(3 * time.Second)
		b.wantPhase(transaction.CompleteCommit)
	})
}

// TestStuckPartitionDelaysNoOtherTransaction checks that a partition that is below its
// min.insync.replicas for an hour does not delay transactions of other partitions on the same
// broker, which must end within milliseconds. The stuck partition's own transaction must end once
// the partition recovers.
func TestStuckPartitionDelaysNoOtherTransaction(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		stuck := dataTopic(2)
		stuck.Name, stuck.ID, b.stuck = "stuck", metadata.ID{11}, "stuck"
		b.OtherTopics = append(b.OtherTopics, stuck)
		b.Lead(1, internaltopic.Self)
		p, err := b.Init(b.t.Context(), transaction.Init{ID: "waits", Timeout: time.Minute,
			Expected: transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}})
		must(b.t, err)
		_, err = b.Add(b.t.Context(), transaction.Add{ID: "waits", Producer: p, Version: 2,
			Partitions: []transaction.Partition{{Topic: "stuck", Index: 0}}})
		must(b.t, err)
		_, err = b.End(b.t.Context(), transaction.End{ID: "waits", Producer: p, Commit: true,
			Version: 2})
		must(b.t, err)
		for range 60 {
			time.Sleep(time.Minute)
			began := time.Now()
			b.commit(b.begin())
			b.wantPhase(transaction.CompleteCommit)
			if took := time.Since(began); took > 10*time.Millisecond {
				b.t.Fatalf("a transaction of other partitions took %s", took)
			}
		}
		b.mu.Lock()
		b.stuck = ""
		b.mu.Unlock()
		time.Sleep(markerDelayMax + time.Millisecond)
		synctest.Wait()
		if got, err := b.Describe(b.t.Context(), "waits"); err != nil ||
			got.Phase != transaction.CompleteCommit {
			b.t.Errorf("got %s, %v", got.Phase, err)
		}
	})
}

// TestMarkerForTopicThatReturns checks that the marker of a decided transaction is sent again, and
// the transaction completes, if one of its topics is deleted and created again (KAFKA-5202), or is
// not yet in the coordinator's image.
func TestMarkerForTopicThatReturns(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		topics := b.OtherTopics
		p := b.begin()
		b.OtherTopics = nil
		b.Lead(1, internaltopic.Self)
		b.commit(p)
		time.Sleep(absentMax / 2)
		b.wantPhase(transaction.PrepareCommit)
		if markers, _ := b.sent(); len(markers) > 0 {
			t.Errorf("sent %+v to a topic that does not exist", markers)
		}
		again := *topics[0]
		again.ID = metadata.ID{10}
		b.OtherTopics = []*metadata.Topic{&again}
		b.Lead(1, internaltopic.Self)
		time.Sleep(markerDelayMax)
		b.wantPhase(transaction.CompleteCommit)
		if markers, _ := b.sent(); len(markers) != 2 {
			t.Errorf("sent %+v, want a marker for each partition", markers)
		}
	})
}

// TestMarkerWaitsWhileTheMetadataIsUnreachable checks that a broker whose image may be outdated
// does not regard a missing topic as deleted.
func TestMarkerWaitsWhileTheMetadataIsUnreachable(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		offline := func(now bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.offline = now
		}
		p := b.begin()
		b.OtherTopics = nil
		b.Lead(1, internaltopic.Self)
		offline(true)
		b.commit(p)
		time.Sleep(5 * absentMax)
		b.wantPhase(transaction.PrepareCommit)
		offline(false)
		time.Sleep(absentMax - 2*time.Second)
		b.wantPhase(transaction.PrepareCommit)
		time.Sleep(5 * time.Second)
		b.wantPhase(transaction.CompleteCommit)
	})
}

// TestNextCoordinatorSendsMarkersAgain checks that the next coordinator sends the markers again,
// with its own epoch, and that the previous coordinator stops.
func TestNextCoordinatorSendsMarkersAgain(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.setRefusal(replica.ErrTimeout)
		b.commit(b.begin())
		b.Lead(2, internaltopic.Self)
		b.awaitLoaded()
		b.sent()
		b.setRefusal(nil)
		time.Sleep(markerDelayMax)
		b.wantPhase(transaction.CompleteCommit)
		markers, _ := b.sent()
		for _, m := range markers {
			if m.CoordinatorEpoch != 2 || !m.Commit {
				t.Errorf("sent %+v, want a commit of coordinator epoch 2", m)
			}
		}
	})
}

func TestTransactionTimesOut(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.begin()
		time.Sleep(time.Minute - time.Second)
		b.wantPhase(transaction.Ongoing)
		time.Sleep(2 * time.Second)
		b.wantPhase(transaction.CompleteAbort)
	})
}

func TestVerify(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		p := b.begin()
		ask := func(id string, epoch int16, index int32) error {
			return b.Verify(b.t.Context(), replica.Verification{TransactionalID: id,
				ProducerID: p.ID, ProducerEpoch: epoch,
				Partitions: []replica.PartitionID{{Topic: "t", Index: index}}})[0]
		}
		for name, test := range map[string]struct {
			got, want error
		}{
			"included":   {ask("a", 0, 1), nil},
			"absent":     {ask("a", 0, 7), replica.ErrNotInTransaction},
			"fenced":     {ask("a", -1, 1), logstore.ErrInvalidProducerEpoch},
			"unknown id": {ask("b", 0, 1), replica.ErrInvalidProducerIDMapping},
			"empty id":   {ask("", 0, 1), ErrInvalidTransactionalID},
		} {
			if !errors.Is(test.got, test.want) {
				t.Errorf("%s: got %v, want %v", name, test.got, test.want)
			}
		}
		b.Lead(2, 2) // broker 2 is the coordinator now
		b.answer = replica.ErrNotInTransaction
		if err := ask("a", 0, 1); !errors.Is(err, replica.ErrNotInTransaction) ||
			len(b.asked) != 1 || b.asked[0].TransactionalID != "a" {
			t.Errorf("got %v from another broker, asked %+v", err, b.asked)
		}
	})
}

// TestVerificationsShareConnections checks that verifications for many batches use few connections.
func TestVerificationsShareConnections(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.Lead(2, 2)
		var tasks sync.WaitGroup
		for range 100 {
			tasks.Go(func() {
				b.Verify(b.t.Context(), replica.Verification{TransactionalID: "a",
					Partitions: []replica.PartitionID{{Topic: "t"}}})
			})
		}
		tasks.Wait()
		if len(b.asked) != 100 || b.dials > verifyConnections {
			t.Errorf("%d questions on %d connections", len(b.asked), b.dials)
		}
		time.Sleep(2 * peerIdle) // idle connections are closed in this time, and opened again below
		b.Verify(b.t.Context(), replica.Verification{TransactionalID: "a",
			Partitions: []replica.PartitionID{{Topic: "t"}}})
		if len(b.asked) != 101 {
			t.Errorf("%d questions, want 101", len(b.asked))
		}
	})
}

func TestAbortByAdministrator(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.begin()
		if err := b.Abort(b.t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		b.wantPhase(transaction.CompleteAbort)
		listed, err := b.List(b.t.Context(), transaction.Filter{OpenFor: -1})
		if err != nil || len(listed) != 1 || listed[0].ID != "a" {
			t.Errorf("List: got %+v, %v", listed, err)
		}
	})
}
