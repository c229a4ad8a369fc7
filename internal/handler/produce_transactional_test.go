package handler

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
)

// answers is a transaction coordinator that returns the same result for each partition, and counts
// the verifications.
type answers struct {
	err   error
	asked []replica.Verification
}

func (a *answers) Verify(_ context.Context, q replica.Verification) []error {
	a.asked = append(a.asked, q)
	errs := make([]error, len(q.Partitions))
	for i := range errs {
		errs[i] = a.err
	}
	return errs
}

// transactionalBroker returns a broker with topic "t", and the coordinator that it uses to verify
// transactions.
func transactionalBroker(t *testing.T) (*broker, *answers) {
	a := &answers{}
	b := newBrokerWith(t, vfs.NewMem(), a)
	b.topic("t", nil)
	return b, a
}

// within returns a batch in a transaction of producer 1 in epoch 0.
func within(t *testing.T, sequence int32) []byte {
	t.Helper()
	return batchOf(t, compress.None, record.Identity{Transactional: true, ProducerID: 1,
		BaseSequence: sequence}, "v")
}

// transact produces a transactional batch and returns the error code.
func (b *broker) transact(version, acks int16, id string, batch []byte) int16 {
	b.t.Helper()
	req := produceRequestFor("t", acks, batch)
	if id != "" {
		req.TransactionID = &id
	}
	return ask[*kmsg.ProduceResponse](b, version, req).Topics[0].Partitions[0].ErrorCode
}

// markProducer1 writes markers for producer 1 to partition 0 of topic "t" and of a missing topic.
// It returns their error codes.
func (b *broker) markProducer1(version int16, change func(*kmsg.WriteTxnMarkersRequestMarker)) (t,
	missing int16) {
	b.t.Helper()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.Committed = 1, true
	for _, topic := range []string{"t", "missing"} {
		marker.Topics = append(marker.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: topic,
			Partitions: []int32{0}})
	}
	change(&marker)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	answer := ask[*kmsg.WriteTxnMarkersResponse](b, version, req)
	if len(answer.Markers) != 1 || answer.Markers[0].ProducerID != 1 ||
		len(answer.Markers[0].Topics) != 2 {
		b.t.Fatalf("response %+v", answer)
	}
	return answer.Markers[0].Topics[0].Partitions[0].ErrorCode,
		answer.Markers[0].Topics[1].Partitions[0].ErrorCode
}

// TestVerificationErrorsByVersion checks that clients get only verification errors that their
// Produce version supports (KIP-890).
func TestVerificationErrorsByVersion(t *testing.T) {
	for _, test := range []struct {
		answer  error
		version int16
		want    int16
	}{
		{nil, 3, 0}, {nil, 12, 0},
		{replica.ErrNotInTransaction, 10, 48}, // INVALID_TXN_STATE
		{replica.ErrNotInTransaction, 11, 120},
		{replica.ErrNotInTransaction, 12, 120},
		{replica.ErrConcurrentTransactions, 11, 19}, // NOT_ENOUGH_REPLICAS
		{replica.ErrConcurrentTransactions, 12, 51},
		{replica.ErrNotEnoughReplicas, 12, 19},
		{replica.ErrInvalidProducerIDMapping, 12, 49},
		{logstore.ErrInvalidProducerEpoch, 12, 47},
	} {
		b, coordinator := transactionalBroker(t)
		coordinator.err = test.answer
		got := b.transact(test.version, -1, "payments", within(t, 0))
		if got != test.want {
			t.Errorf("Produce %d, answer %v: error %d, want %d", test.version, test.answer, got,
				test.want)
		}
		if q := coordinator.asked; len(q) != 1 || q[0].TransactionalID != "payments" ||
			q[0].Add != (test.version >= 12) {
			t.Errorf("Produce %d: asked %+v", test.version, q)
		}
	}
}

func TestTransactionalBatchesNeedAcksAllAndAnID(t *testing.T) {
	b, coordinator := transactionalBroker(t)
	if got := b.transact(12, 1, "payments", within(t, 0)); got != 21 {
		t.Errorf("acks 1: error %d, want INVALID_REQUIRED_ACKS", got)
	}
	if got := b.transact(12, -1, "", within(t, 0)); got != 53 {
		t.Errorf("no id: error %d, want TRANSACTIONAL_ID_AUTHORIZATION_FAILED", got)
	}
	log := b.store.Log(logstore.PartitionID{Topic: "t"})
	if len(coordinator.asked) > 0 || log.LogEnd() != 0 {
		t.Errorf("asked %+v, log end %d", coordinator.asked, log.LogEnd())
	}
	plain := batch(t, compress.None, "v")
	if got := b.transact(12, 1, "payments", plain); got != 0 {
		t.Errorf("a batch without a transaction, acks 1: error %d", got)
	}
}

// TestWriteTxnMarkers checks that markers in both versions end transactions. The result for one
// partition must not depend on the others.
func TestWriteTxnMarkers(t *testing.T) {
	b, _ := transactionalBroker(t)
	log := b.store.Log(logstore.PartitionID{Topic: "t"})
	want := func(stage string, version, want int16, end, stable int64,
		change func(*kmsg.WriteTxnMarkersRequestMarker)) {
		t.Helper()
		got, missing := b.markProducer1(version, change)
		if got != want || missing != 3 || log.LogEnd() != end || log.LastStable() != stable {
			t.Errorf("%s: errors %d and %d, log end %d, last stable offset %d", stage, got, missing,
				log.LogEnd(), log.LastStable())
		}
	}
	bumped := func(m *kmsg.WriteTxnMarkersRequestMarker) {
		m.TransactionVersion, m.ProducerEpoch, m.CoordinatorEpoch = 2, 1, 5
	}
	if got := b.transact(12, -1, "payments", within(t, 0)); got != 0 { // offset 0
		t.Fatalf("produce: error %d", got)
	}
	want("transaction version 2", 2, 0, 2, 2, bumped) // offset 1
	want("repeat", 2, 0, 2, 2, bumped)
	want("older coordinator", 2, 52, 2, 2, func(m *kmsg.WriteTxnMarkersRequestMarker) {
		m.ProducerEpoch, m.CoordinatorEpoch = 1, 4
	})
	want("older epoch", 1, 47, 2, 2, func(m *kmsg.WriteTxnMarkersRequestMarker) {
		m.ProducerEpoch, m.CoordinatorEpoch = 0, 5
	})
	want("version 0", 1, 0, 3, 3, func(m *kmsg.WriteTxnMarkersRequestMarker) {
		m.ProducerEpoch, m.CoordinatorEpoch = 1, 5
	})
}

// TestLateMarkerOfReplacedConnectionIsFenced checks that a late marker does not end the next
// transaction. A coordinator sends the marker, loses its connection, and sends the marker again on
// a new connection; then the first marker arrives. Below transaction version 2, both transactions
// have the same epoch.
func TestLateMarkerOfReplacedConnectionIsFenced(t *testing.T) {
	b, _ := transactionalBroker(t)
	log := b.store.Log(logstore.PartitionID{Topic: "t"})
	mark := func(client string, connection uint64) int16 {
		b.client, b.number = client, connection
		got, _ := b.markProducer1(2, func(m *kmsg.WriteTxnMarkersRequestMarker) {
			m.Committed, m.CoordinatorEpoch = false, 5
		})
		return got
	}
	produce := func(sequence int32) {
		t.Helper()
		if got := b.transact(3, -1, "payments", within(t, sequence)); got != 0 {
			t.Fatalf("produce %d: error %d", sequence, got)
		}
	}
	produce(0)
	if got := mark("broker-2", 8); got != 0 {
		t.Fatalf("first marker: error %d", got)
	}
	produce(1)
	if got := mark("broker-2", 7); got != 52 || log.LastStable() != 2 {
		t.Errorf("late marker: error %d, last stable offset %d", got, log.LastStable())
	}
	if got := mark("broker-3", 6); got != 0 || log.LastStable() != log.LogEnd() {
		t.Errorf("another coordinator: error %d, last stable offset %d", got, log.LastStable())
	}
	produce(2)
	if got := mark("admin", 5); got != 0 || log.LastStable() != log.LogEnd() {
		t.Errorf("administrator: error %d, last stable offset %d", got, log.LastStable())
	}
}

// TestDescribeProducers checks that DescribeProducers returns a producer's open transaction and
// last marker (KIP-664).
func TestDescribeProducers(t *testing.T) {
	b, _ := transactionalBroker(t)
	describe := func() (kmsg.DescribeProducersResponseTopicPartition, int16) {
		t.Helper()
		req := kmsg.NewPtrDescribeProducersRequest()
		for _, topic := range []string{"t", "missing"} {
			req.Topics = append(req.Topics, kmsg.DescribeProducersRequestTopic{Topic: topic,
				Partitions: []int32{0}})
		}
		answer := ask[*kmsg.DescribeProducersResponse](b, 0, req)
		return answer.Topics[0].Partitions[0], answer.Topics[1].Partitions[0].ErrorCode
	}
	if part, missing := describe(); part.ErrorCode != 0 || len(part.ActiveProducers) != 0 ||
		missing != 3 {
		t.Errorf("no producer: %+v, error %d", part, missing)
	}
	b.mustProduce("t", "before")
	for sequence := range int32(2) {
		if got := b.transact(12, -1, "payments", within(t, sequence)); got != 0 {
			t.Fatalf("produce: error %d", got)
		}
	}
	part, _ := describe()
	if len(part.ActiveProducers) != 1 {
		t.Fatalf("open transaction: %+v", part)
	}
	p := part.ActiveProducers[0]
	if p.ProducerID != 1 || p.LastSequence != 1 {
		t.Errorf("open transaction: %+v, want producer 1 at sequence 1", p)
	}
	if p.CurrentTxnStartOffset != 1 || p.CoordinatorEpoch != -1 {
		t.Errorf("open transaction: %+v, want it from offset 1", p)
	}
	if p.LastTimestamp <= 0 {
		t.Errorf("open transaction: timestamp %d", p.LastTimestamp)
	}
	b.markProducer1(2, func(m *kmsg.WriteTxnMarkersRequestMarker) { m.CoordinatorEpoch = 7 })
	part, _ = describe()
	if p := part.ActiveProducers[0]; p.CurrentTxnStartOffset != -1 || p.CoordinatorEpoch != 7 {
		t.Errorf("ended transaction: %+v", p)
	}
	must(t, b.replace("t", func(topic *metadata.Topic) error { // another broker leads
		topic.Partitions = []*metadata.Partition{{Replicas: []int32{self, 9}, Leader: 9,
			LeaderEpoch: 3, ISR: []int32{9}}}
		return nil
	}))
	part, _ = describe()
	if part.ErrorCode != 0 || len(part.ActiveProducers) != 1 {
		t.Errorf("a follower: %+v", part)
	}
}
