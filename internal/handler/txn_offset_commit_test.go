package handler

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
)

// groupBroker returns a broker with topic "t" and a group coordinator, and the transaction
// coordinator that it uses.
func groupBroker(t *testing.T) (*broker, *answers) {
	a := &answers{}
	b := newBrokerWith(t, vfs.NewMem(), a)
	b.topic("t", nil)
	return coordinated(t, b), a
}

// commitIn commits offsets in a transaction of producer 1: for partition 0 of topic "t", and for a
// partition that does not exist. It returns the error codes.
func (b *broker) commitIn(version int16, offset int64,
	change func(*kmsg.TxnOffsetCommitRequest)) (t, missing int16) {
	b.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Group, req.TransactionalID, req.ProducerID = "group", "payments", 1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "t", b.image.Load().Topic("t").ID
	for index := range int32(2) {
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = index, offset
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	if change != nil {
		change(req)
	}
	answer := ask[*kmsg.TxnOffsetCommitResponse](b, version, req)
	parts := answer.Topics[0].Partitions
	if len(parts) != 2 || parts[0].Partition != 0 || parts[1].Partition != 1 {
		b.t.Fatalf("response %+v", answer)
	}
	return parts[0].ErrorCode, parts[1].ErrorCode
}

// fetchOffset returns the committed offset in partition 0 of topic "t", or the error code.
func (b *broker) fetchOffset(version int16, stable bool) (offset int64, code int16) {
	b.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = "group", stable
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", MemberEpoch: -1,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
	answer := ask[*kmsg.OffsetFetchResponse](b, version, req)
	if version < 8 {
		part := answer.Topics[0].Partitions[0]
		return part.Offset, part.ErrorCode
	}
	part := answer.Groups[0].Topics[0].Partitions[0]
	return part.Offset, part.ErrorCode
}

// markOffsets writes a marker for producer 1 to all partitions of the offsets topic.
func (b *broker) markOffsets(epoch int16) {
	b.t.Helper()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed = 1, epoch, true
	marker.TransactionVersion = 2
	topic := kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: coordinator.OffsetsTopic}
	for _, p := range b.image.Load().Topic(coordinator.OffsetsTopic).Partitions {
		topic.Partitions = append(topic.Partitions, p.Index)
	}
	marker.Topics = append(marker.Topics, topic)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	answer := ask[*kmsg.WriteTxnMarkersResponse](b, 2, req)
	for _, part := range answer.Markers[0].Topics[0].Partitions {
		if part.ErrorCode != 0 {
			b.t.Fatalf("marker of partition %d: error %d", part.Partition, part.ErrorCode)
		}
	}
}

// TestTxnOffsetCommit checks that a marker commits a transaction's offsets. Before that, a reader
// that requires stable offsets gets UNSTABLE_OFFSET_COMMIT, and other readers get the previous
// offset (KIP-447).
func TestTxnOffsetCommit(t *testing.T) {
	for version := range int16(7) {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			b, coordinator := groupBroker(t)
			b.commitOffset("t")
			if got, missing := b.commitIn(version, 7, nil); got != 0 || missing != 3 {
				t.Fatalf("errors %d and %d", got, missing)
			}
			if q := coordinator.asked; len(q) != 1 || q[0].TransactionalID != "payments" ||
				q[0].Add != (version >= 5) {
				t.Errorf("asked %+v", q)
			}
			for _, fetch := range []int16{7, 8, 9} {
				if offset, code := b.fetchOffset(fetch, true); offset != -1 || code != 88 {
					t.Errorf("OffsetFetch %d, stable: offset %d, error %d", fetch, offset, code)
				}
				if offset, code := b.fetchOffset(fetch, false); offset != 0 || code != 0 {
					t.Errorf("OffsetFetch %d: offset %d, error %d", fetch, offset, code)
				}
			}
			b.markOffsets(1)
			if offset, code := b.fetchOffset(7, true); offset != 7 || code != 0 {
				t.Errorf("committed: offset %d, error %d", offset, code)
			}
			fenced := int16(47) // INVALID_PRODUCER_EPOCH
			if got, _ := b.commitIn(version, 8, nil); got != fenced {
				t.Errorf("old epoch: error %d", got)
			}
		})
	}
}

// TestTxnOffsetCommitOfAnUnknownTopicID checks that version 6 identifies topics by their ids alone.
func TestTxnOffsetCommitOfAnUnknownTopicID(t *testing.T) {
	b, _ := groupBroker(t)
	for _, id := range [][16]byte{{}, {1}} {
		got, missing := b.commitIn(6, 7, func(req *kmsg.TxnOffsetCommitRequest) {
			req.Topics[0].TopicID = id
		})
		if got != 100 || missing != 100 {
			t.Errorf("id %v: errors %d and %d, want UNKNOWN_TOPIC_ID", id, got, missing)
		}
	}
}

// TestTxnOffsetCommitErrorsByVersion checks that clients get only verification errors that their
// version supports (KIP-890).
func TestTxnOffsetCommitErrorsByVersion(t *testing.T) {
	for _, test := range []struct {
		answer  error
		version int16
		want    int16
	}{
		{replica.ErrNotInTransaction, 3, 48}, {replica.ErrNotInTransaction, 4, 120},
		{replica.ErrConcurrentTransactions, 4, 15}, {replica.ErrConcurrentTransactions, 5, 51},
		{replica.ErrNotEnoughReplicas, 5, 15}, {replica.ErrInvalidProducerIDMapping, 5, 49},
	} {
		b, coordinator := groupBroker(t)
		coordinator.err = test.answer
		if got, missing := b.commitIn(test.version, 7, nil); got != test.want || missing != 3 {
			t.Errorf("version %d, answer %v: errors %d and %d, want %d", test.version, test.answer,
				got, missing, test.want)
		}
	}
}

// TestTxnOffsetCommitOfFormerMembers checks that a former member of the group cannot commit offsets
// (KIP-447).
func TestTxnOffsetCommitOfFormerMembers(t *testing.T) {
	b, _ := groupBroker(t)
	got, _ := b.commitIn(5, 7, func(req *kmsg.TxnOffsetCommitRequest) {
		req.MemberID, req.Generation = "gone", 4
	})
	if got != 22 { // ILLEGAL_GENERATION: the group does not exist
		t.Errorf("error %d", got)
	}
	if got, _ := b.commitIn(5, 7, func(req *kmsg.TxnOffsetCommitRequest) {
		req.Group = ""
	}); got != 24 {
		t.Errorf("empty group id: error %d", got)
	}
	if offset, code := b.fetchOffset(8, true); offset != -1 || code != 0 {
		t.Errorf("offset %d, error %d", offset, code)
	}
}
