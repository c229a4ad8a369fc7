package handler

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/data"
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

// followerFetch encodes a fetch by follower 3, handles it and returns the decoded response.
func (b *broker) followerFetch(t *testing.T,
	partitions ...replica.FollowerPartition) []replica.FollowerResult {
	t.Helper()
	got, err := b.sendFollowerFetch(t, &replica.FollowerFetch{
		Replica: metadata.InSync{Broker: 3, Epoch: 5}, BytesMax: 1 << 20, Partitions: partitions,
		Session: session.ID{Epoch: session.None},
	})
	must(t, err)
	return got.Partitions
}

func (b *broker) sendFollowerFetch(t *testing.T,
	pull *replica.FollowerFetch) (replica.FollowerResponse,
	error) {
	t.Helper()
	call := data.FollowerFetchCall(pull)
	if !b.Flexible(call.Key, call.Version) || !call.Flexible {
		t.Fatal("the version that brokers use is not flexible")
	}
	body := call.Append(nil)
	scribble := func() { clear(body) } // as the next request in the same buffer would
	answer, err := b.Handle(t.Context(),
		&wire.Request{Key: call.Key, Version: call.Version, Body: body, Release: scribble})
	must(t, err)
	topics := map[metadata.ID]string{}
	for _, topic := range b.image.Load().Topics {
		topics[topic.ID] = topic.Name
	}
	return data.DecodeFollowerFetch(replyBytes(t, answer), topics)
}

func followerPartition(topic *metadata.Topic, offset int64) replica.FollowerPartition {
	return replica.FollowerPartition{
		ID: replica.PartitionID{Topic: topic.Name}, Topic: topic.ID, LeaderEpoch: 2, Offset: offset,
		LastEpoch: -1, DurableEnd: offset, BytesMax: 1 << 20,
	}
}

// TestFollowerFetchResponses checks that responses to a follower contain records, the high
// watermark, errors and diverging epochs, and that they omit unchanged partitions.
func TestFollowerFetchResponses(t *testing.T) {
	b := newBroker(t)
	topic, other := b.topic("a", replicated), b.topic("b", replicated)
	acks1 := produceRequestFor("a", 1, batch(t, 0, "x", "y"))
	if answer := ask[*kmsg.ProduceResponse](b, 9,
		acks1); answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal("produce")
	}
	got := b.followerFetch(t, followerPartition(topic, 0), followerPartition(other, 0))
	if len(got) != 1 || got[0].Err != nil {
		t.Fatalf("%+v, want one partition", got)
	}
	if len(values(t, got[0].Records)) != 2 {
		t.Fatalf("%+v, want two records", got[0])
	}
	if got[0].HighWater != 0 || got[0].DivergingEpoch != -1 {
		t.Fatalf("%+v, want high watermark 0 and no diverging epoch", got[0])
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
	// DecodeFollowerFetch omits topics with an unknown name.
	if got = b.followerFetch(t, gone); len(got) != 0 {
		t.Errorf("unknown topic: %+v", got)
	}
}

// TestFollowerFetchReadsTagsBeforeItsFrameIsReleased sends a fetch with a durable end offset in the
// tags. The frame's memory is cleared when the frame is released, so the leader gets the durable
// end offset only if it has read the tags before.
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
