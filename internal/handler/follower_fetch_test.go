package handler

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

// replicated gives a topic two in-sync replicas: this broker, which is the leader, and broker 3.
func replicated(topic *metadata.Topic) {
	topic.Partitions[0].Replicas, topic.Partitions[0].ISR = []int32{self, 3}, []int32{self, 3}
}

// followerFetch encodes a fetch of follower 3, handles it and returns the decoded response.
func (b *broker) followerFetch(t *testing.T,
	at ...replica.FollowerPartition) []replica.FollowerResult {
	t.Helper()
	got, err := b.sendFollowerFetch(t, &replica.FollowerFetch{
		Replica: metadata.InSync{Broker: 3, Epoch: 5}, BytesMax: 1 << 20, Partitions: at,
		Session: session.ID{Epoch: session.None},
	})
	must(t, err)
	return got.Partitions
}

func (b *broker) sendFollowerFetch(t *testing.T,
	pull *replica.FollowerFetch) (replica.FollowerResponse,
	error) {
	t.Helper()
	call := FollowerFetchCall(pull)
	if !b.Flexible(call.Key, call.Version) || !call.Flexible {
		t.Fatal("the version that brokers use is not flexible")
	}
	body := call.Append(nil)
	scribble := func() { clear(body) } // as the next request in this memory would do
	answer, err := b.Handle(t.Context(),
		&wire.Request{Key: call.Key, Version: call.Version, Body: body, Release: scribble})
	must(t, err)
	topics := map[metadata.ID]string{}
	for _, topic := range b.image.Load().Topics {
		topics[topic.ID] = topic.Name
	}
	return DecodeFollowerFetch(replyBytes(t, answer), topics)
}

func followerPartition(topic *metadata.Topic, offset int64) replica.FollowerPartition {
	return replica.FollowerPartition{
		ID: replica.PartitionID{Topic: topic.Name}, Topic: topic.ID, LeaderEpoch: 2, Offset: offset,
		LastEpoch: -1, DurableEnd: offset, BytesMax: 1 << 20,
	}
}

// TestFollowerFetchDecodesWithKmsg checks that kmsg decodes every field that appendFollowerFetch
// encodes, including the tags.
func TestFollowerFetchDecodesWithKmsg(t *testing.T) {
	a, b := metadata.NewID(), metadata.NewID()
	forgotten := []session.Key{{Topic: b, Index: 4}, {Topic: a, Index: 1 << 30}}
	pull := &replica.FollowerFetch{Replica: metadata.InSync{Broker: 7, Epoch: 1 << 40},
		Wait: 500 * time.Millisecond, BytesMax: 1000, Session: session.ID{ID: 8, Epoch: 9},
		Forgotten: forgotten, Partitions: []replica.FollowerPartition{
			{ID: replica.PartitionID{Topic: "a", Index: 1}, Topic: a, LeaderEpoch: 3, Offset: 10,
				LastEpoch: 2, DurableEnd: 10, LogStart: 4, HighWater: 9, BytesMax: 100},
			{ID: replica.PartitionID{Topic: "a", Index: 2}, Topic: a, LeaderEpoch: 4, Offset: 20,
				LastEpoch: -1, DurableEnd: 19, TombstoneClean: 18, ReplicasTombstoneClean: 17,
				BytesMax: 200},
			{ID: replica.PartitionID{Topic: "b"}, Topic: b, Offset: 1 << 50, LastEpoch: 1,
				DurableEnd: 1 << 50, TombstoneClean: 1, BytesMax: 300},
		}}
	body := appendFollowerFetch(nil, pull)
	if err := fetchShape.check(followerFetchVersion, true, body); err != nil {
		t.Fatal(err)
	}
	req := kmsg.FetchRequest{Version: followerFetchVersion}
	if err := req.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if again := req.AppendTo(nil); !bytes.Equal(again, body) {
		t.Errorf("kmsg encodes it to %d bytes, want %d", len(again), len(body))
	}
	if req.SessionID != 8 || req.SessionEpoch != 9 {
		t.Errorf("session %d, epoch %d", req.SessionID, req.SessionEpoch)
	}
	want := replica.FetchRequest{TopicIDs: true}
	(&Handler{Access: &Access{}}).fetchPartitions(&wire.Request{},
		&fetchAnswer{image: metadata.NewImage("", metadata.CleanerBudget{}, nil, nil),
			request: &req}, &want)
	if !slices.Equal(want.Forgotten, forgotten) || len(want.Partitions) != 3 {
		t.Errorf("%+v", want)
	}
	if req.ReplicaState.ID != 7 || req.ReplicaState.Epoch != 1<<40 || !omitsUnchanged(&req) ||
		len(req.Topics) != 2 {
		t.Errorf("%+v", req)
	}
	at := 0
	for _, topic := range req.Topics {
		for i := range topic.Partitions {
			want := pull.Partitions[at]
			got := fetchPartition(want.ID, topic.TopicID, &topic.Partitions[i])
			if got != (replica.FetchPartition{
				ID: want.ID, Topic: want.Topic, Offset: want.Offset, BytesMax: want.BytesMax,
				LeaderEpoch: want.LeaderEpoch,
				LastEpoch:   want.LastEpoch, HighWater: want.HighWater, DurableEnd: want.DurableEnd,
				TombstoneClean:         want.TombstoneClean,
				ReplicasTombstoneClean: want.ReplicasTombstoneClean, LogStart: want.LogStart,
			}) {
				t.Errorf("partition %d: %+v, want %+v", at, got, want)
			}
			at++
		}
	}
}

// TestFollowerFetchResponses checks that responses to a follower contain records, the high
// watermark, errors and diverging epochs, and that they leave out unchanged partitions.
func TestFollowerFetchResponses(t *testing.T) {
	b := newBroker(t)
	topic, other := b.topic("a", replicated), b.topic("b", replicated)
	acks1 := produceRequestFor("a", 1, batch(t, 0, "x", "y"))
	if answer := ask[*kmsg.ProduceResponse](b, 9,
		acks1); answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal("produce")
	}
	got := b.followerFetch(t, followerPartition(topic, 0), followerPartition(other, 0))
	if len(got) != 1 || got[0].Err != nil || len(values(t, got[0].Records)) != 2 ||
		got[0].HighWater != 0 || got[0].DivergingEpoch != -1 {
		t.Fatalf("%+v", got)
	}
	got = b.followerFetch(t, followerPartition(topic, 2), followerPartition(other, 0))
	if len(got) != 1 || got[0].HighWater != 2 || len(got[0].Records) != 0 {
		t.Errorf("the fetch advances the high watermark, but the response does not contain it: %+v",
			got)
	}
	diverging := followerPartition(topic, 9)
	diverging.LastEpoch = 2
	if got = b.followerFetch(t, diverging); len(got) != 1 || got[0].DivergingEpoch != 2 ||
		got[0].DivergingEnd != 2 {
		t.Errorf("diverging: %+v", got)
	}
	if got = b.followerFetch(t, followerPartition(topic, 9)); len(got) != 1 ||
		!errors.Is(got[0].Err, logstore.ErrOffsetOutOfRange) || got[0].LogEnd != 2 ||
		got[0].LogStart != 0 {
		t.Errorf("out of range: %+v", got)
	}
	old := followerPartition(topic, 0)
	old.LeaderEpoch = 1
	if got = b.followerFetch(t, old); len(got) != 1 ||
		!errors.Is(got[0].Err, replica.ErrFencedLeaderEpoch) {
		t.Errorf("old epoch: %+v", got)
	}
	gone := followerPartition(&metadata.Topic{Name: "gone", ID: metadata.NewID()}, 0)
	// DecodeFollowerFetch leaves out topics whose name is unknown
	if got = b.followerFetch(t, gone); len(got) != 0 {
		t.Errorf("unknown topic: %+v", got)
	}
}

// TestFollowerFetchReadsTagsBeforeItsFrameIsReleased fetches with a durable end offset in the tags.
// The memory of the frame is cleared when it is released, so the leader knows the durable end
// offset only if it has read the tags before.
func TestFollowerFetchReadsTagsBeforeItsFrameIsReleased(t *testing.T) {
	b := newBroker(t)
	topic := b.topic("a", replicated)
	if answer := ask[*kmsg.ProduceResponse](b, 9,
		produceRequestFor("a", 1,
			batch(t, 0, "x", "y"))); answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal("produce")
	}
	partial := followerPartition(topic, 2)
	partial.DurableEnd = 1
	if got := b.followerFetch(t, partial); len(got) != 1 || got[0].HighWater != 1 {
		t.Errorf("a follower with two records and durable end offset 1: %+v", got)
	}
}

// FuzzDecodeFollowerFetch checks that arbitrary bytes decode to a response or an error, since the
// bytes from a peer are untrusted.
func FuzzDecodeFollowerFetch(f *testing.F) {
	id := metadata.NewID()
	answer := kmsg.FetchResponse{Version: followerFetchVersion,
		Topics: []kmsg.FetchResponseTopic{{TopicID: id,
			Partitions: []kmsg.FetchResponseTopicPartition{
				{RecordBatches: []byte("batches"),
					DivergingEpoch: kmsg.FetchResponseTopicPartitionDivergingEpoch{Epoch: 1,
						EndOffset: 2}}, {ErrorCode: 6},
			}}}}
	f.Add(answer.AppendTo(nil))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeFollowerFetch(body, map[metadata.ID]string{id: "a"})
		if err != nil && got.Partitions != nil {
			t.Error("both a response and an error")
		}
		total := 0
		for i := range got.Partitions {
			total += len(got.Partitions[i].Records)
		}
		if total > len(body) {
			t.Errorf("%d bytes of records out of %d", total, len(body))
		}
	})
}

// TestTombstoneCleanOffsetOfEarlierVersionsIsIgnored: earlier versions of Heartwood send no
// tombstoneCleanTag, and the end of their clean section in place of the tombstone-clean offset. The
// received offset must then be treated as 0.
func TestTombstoneCleanOffsetOfEarlierVersionsIsIgnored(t *testing.T) {
	numbers := func(of ...uint64) (value []byte) {
		for _, n := range of {
			value = binary.BigEndian.AppendUint64(value, n)
		}
		return value
	}
	for _, tagged := range []bool{false, true} {
		request, answer, tombstoneClean := kmsg.NewFetchRequestTopicPartition(),
			kmsg.NewFetchResponseTopicPartition(), int64(0)
		request.UnknownTags.Set(followerTag, numbers(9, 7, 5))
		answer.UnknownTags.Set(followerTag, numbers(1, 9, 7))
		if tagged {
			request.UnknownTags.Set(tombstoneCleanTag, nil)
			answer.UnknownTags.Set(tombstoneCleanTag, nil)
			tombstoneClean = 7
		}
		want := replica.FetchPartition{DurableEnd: -1}
		readFollowerTags(&request.UnknownTags, &want)
		if want.TombstoneClean != tombstoneClean || want.DurableEnd != 9 ||
			want.ReplicasTombstoneClean != 5 {
			t.Errorf("request with tombstoneCleanTag %t: %+v", tagged, want)
		}
		if got := followerResult("a", &answer); got.ReplicasTombstoneClean != tombstoneClean ||
			got.LogEnd != 9 ||
			got.LogStart != 1 {
			t.Errorf("response with tombstoneCleanTag %t: %+v", tagged, got)
		}
	}
}
