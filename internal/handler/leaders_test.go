package handler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
)

// elsewhere makes broker 3 the leader of a topic in epoch 7, and this broker a follower.
func elsewhere(topic *metadata.Topic) {
	replicated(topic)
	topic.Partitions[0].Leader, topic.Partitions[0].LeaderEpoch = 3, 7
}

// elsewhereOutOfSync is like elsewhere, but this broker is not in the ISR, so it refuses a produce
// request immediately.
func elsewhereOutOfSync(topic *metadata.Topic) {
	elsewhere(topic)
	topic.Partitions[0].ISR = []int32{3}
}

// TestQuirk7CurrentLeaderIsReturned checks that the response to a request that was sent to the
// wrong broker contains the current leader (KIP-951): in Produce from version 10 on, and in Fetch
// from version 12 on. It must also contain the leader's endpoint, in Fetch from version 16 on.
func TestQuirk7CurrentLeaderIsReturned(t *testing.T) {
	everyVersion(t, api.KeyProduce, func(t *testing.T, b *broker, version int16) {
		if version < 3 {
			return
		}
		b.topic("a", elsewhereOutOfSync)
		answer := ask[*kmsg.ProduceResponse](b, version,
			produceRequestFor("a", -1, batch(t, 0, "x")))
		part := answer.Topics[0].Partitions[0]
		if part.ErrorCode != 6 {
			t.Errorf("error %d", part.ErrorCode)
		}
		if hinted := part.CurrentLeader.LeaderID == 3 &&
			part.CurrentLeader.LeaderEpoch == 7; hinted != (version >= 10) {
			t.Errorf("leader %+v", part.CurrentLeader)
		}
		if hinted := len(answer.Brokers) == 1 && answer.Brokers[0].Host == "three.example" &&
			answer.Brokers[0].Port == 9093; hinted != (version >= 10) {
			t.Errorf("brokers %+v", answer.Brokers)
		}
	})
	everyVersion(t, api.KeyFetch, func(t *testing.T, b *broker, version int16) {
		b.topic("a", elsewhere)
		b.topic("b", nil)
		for epoch, want := range map[int32]int16{-1: 6, 6: 74, 8: 75} {
			if version < 9 && epoch != -1 || version >= 11 && epoch == -1 {
				continue // no epoch in the request, or followers may respond
			}
			req := fetchRequestFor("a", 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
			answer := ask[*kmsg.FetchResponse](b, version, req)
			part := answer.Topics[0].Partitions[0]
			if part.ErrorCode != want {
				t.Errorf("epoch %d: error %d, want %d", epoch, part.ErrorCode, want)
			}
			if hinted := part.CurrentLeader.LeaderID == 3 &&
				part.CurrentLeader.LeaderEpoch == 7; hinted != (version >= 12 && want != 75) {
				t.Errorf("epoch %d: leader %+v", epoch, part.CurrentLeader)
			}
			if hinted := len(answer.Brokers) == 1 &&
				answer.Brokers[0].Host == "three.example"; hinted != (version >= 16 && want != 75) {
				t.Errorf("epoch %d: brokers %+v", epoch, answer.Brokers)
			}
		}
	})
}

// TestNewerLeaderOfTheReplicaIsReturned applies an image only to the replicas, as if a request
// arrived while the image was being applied. The response must name the leader that the replica
// knows.
func TestNewerLeaderOfTheReplicaIsReturned(t *testing.T) {
	b := newBroker(t)
	topic := b.topic("a", replicated)
	old := b.image.Load()
	p := *topic.Partitions[0]
	p.Leader, p.LeaderEpoch = 3, 7
	topic.Partitions[0] = &p
	must(t, b.apply())
	b.image.Store(old)
	produced := ask[*kmsg.ProduceResponse](b, 10, produceRequestFor("a", 1, batch(t, 0, "x")))
	if leader := produced.Topics[0].Partitions[0].CurrentLeader; leader.LeaderID != 3 ||
		leader.LeaderEpoch != 7 || len(produced.Brokers) != 1 {
		t.Errorf("produce: leader %+v, brokers %+v", leader, produced.Brokers)
	}
	req := fetchRequestFor("a", 0)
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = 2
	fetched := ask[*kmsg.FetchResponse](b, 16, req)
	if leader := fetched.Topics[0].Partitions[0].CurrentLeader; leader.LeaderID != 3 ||
		leader.LeaderEpoch != 7 || len(fetched.Brokers) != 1 {
		t.Errorf("fetch: leader %+v, brokers %+v", leader, fetched.Brokers)
	}
}

// TestProduceWaitsForTheImageOfTheNewLeader checks that a produce request waits if it arrives
// before the metadata image in which this broker is the leader.
func TestProduceWaitsForTheImageOfTheNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		topic := b.topic("a", elsewhere)
		start, answers := time.Now(), make(chan *kmsg.ProduceResponse, 1)
		go func() {
			answers <- ask[*kmsg.ProduceResponse](b, 12, produceRequestFor("a", 1, batch(t, 0, "x")))
		}()
		time.Sleep(50 * time.Millisecond)
		p := *topic.Partitions[0]
		p.Leader, p.LeaderEpoch = self, 8
		topic.Partitions[0] = &p
		must(t, b.apply())
		answer := <-answers
		if code := answer.Topics[0].Partitions[0].ErrorCode; code != 0 ||
			time.Since(start) != 50*time.Millisecond {
			t.Errorf("error %d after %s, want none after 50 ms", code, time.Since(start))
		}
	})
}

// TestLeaderOfTheWaitIsReturned checks that the response to a waiting request contains the leader
// elected during the wait. When the request arrived, that broker was not up.
func TestLeaderOfTheWaitIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		topic := b.topic("a", replicated)
		full := b.image.Load()
		b.image.Store(metadata.NewImage("cluster-1", metadata.CleanerBudget{}, full.Brokers[:1],
			[]*metadata.Topic{topic}))
		produced := make(chan *kmsg.ProduceResponse, 1)
		fetched := make(chan *kmsg.FetchResponse, 1)
		go func() { // broker 3 does not fetch the record
			produced <- ask[*kmsg.ProduceResponse](b, 12,
				produceRequestFor("a", -1, batch(t, 0, "x")))
		}()
		go func() {
			req := fetchRequestFor("a", 0)
			req.MaxWaitMillis, req.MinBytes = 60_000, 1
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = 2
			fetched <- ask[*kmsg.FetchResponse](b, 16, req)
		}()
		synctest.Wait()
		// Roles change before requests use the new image, so the broker must be up before it leads.
		b.image.Store(full)
		p := *topic.Partitions[0]
		p.Leader, p.LeaderEpoch = 3, 7
		topic.Partitions[0] = &p
		must(t, b.apply())
		if a := <-produced; a.Topics[0].Partitions[0].CurrentLeader.LeaderID != 3 ||
			len(a.Brokers) != 1 {
			t.Errorf("produce: %+v", a)
		}
		if a := <-fetched; a.Topics[0].Partitions[0].CurrentLeader.LeaderID != 3 ||
			len(a.Brokers) != 1 {
			t.Errorf("fetch: %+v", a)
		}
	})
}

// TestOffsetForLeaderEpoch checks the end offset of an epoch in every version, and the diverging
// epoch in a fetch response (KIP-320, KIP-595).
func TestOffsetForLeaderEpoch(t *testing.T) {
	grown := func(b *broker) {
		topic := b.topic("a", nil)
		b.mustProduce("a", "x", "y")
		p := *topic.Partitions[0]
		p.LeaderEpoch = 5
		topic.Partitions[0] = &p
		must(b.t, b.apply())
		b.mustProduce("a", "z")
	}
	everyVersion(t, api.KeyOffsetForEpoch, func(t *testing.T, b *broker, version int16) {
		grown(b)
		for epoch, want := range map[int32][2]int64{2: {2, 2}, 4: {2, 2}, 5: {5, 3}, 6: {-1, -1},
			0: {0, 0}} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID = -1
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "a",
				Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
					{CurrentLeaderEpoch: 5, LeaderEpoch: epoch},
					{CurrentLeaderEpoch: 4, LeaderEpoch: epoch},
				}}}
			parts := ask[*kmsg.OffsetForLeaderEpochResponse](b, version, req).Topics[0].Partitions
			if parts[0].ErrorCode != 0 || int64(parts[0].LeaderEpoch) != want[0] ||
				parts[0].EndOffset != want[1] {
				t.Errorf("epoch %d: %+v, want %v", epoch, parts[0], want)
			}
			if parts[1].ErrorCode != 74 || parts[1].EndOffset != -1 {
				t.Errorf("request with an old leader epoch: %+v", parts[1])
			}
		}
	})
	everyVersion(t, api.KeyFetch, func(t *testing.T, b *broker, version int16) {
		if version < 12 {
			return
		}
		grown(b)
		req := fetchRequestFor("a", 3)
		req.Topics[0].Partitions[0].LastFetchedEpoch = 2
		part := ask[*kmsg.FetchResponse](b, version, req).Topics[0].Partitions[0]
		if part.ErrorCode != 0 || part.DivergingEpoch.Epoch != 2 ||
			part.DivergingEpoch.EndOffset != 2 {
			t.Errorf("fetch: %+v, want diverging epoch 2 with end offset 2", part)
		}
	})
}

// TestNewLeaderReturnsNoStaleEndOffset produces a record that broker 3 does not have, and starts a
// new leader epoch. ListOffsets must then return no end offset until the high watermark is known
// (KIP-207).
func TestNewLeaderReturnsNoStaleEndOffset(t *testing.T) {
	everyVersion(t, api.KeyListOffsets, func(t *testing.T, b *broker, version int16) {
		topic := b.topic("tickets", replicated)
		// Broker 3 does not fetch the record, so the high watermark remains 0.
		ask[*kmsg.ProduceResponse](b, 9, produceRequestFor("tickets", 1, batch(t, 0, "x")))
		p := *topic.Partitions[0]
		p.LeaderEpoch++
		topic.Partitions[0] = &p
		must(t, b.apply())
		want := int16(78)
		if version < 5 {
			want = 5
		}
		if answer := b.listOffset(version, "tickets", -1); answer.ErrorCode != want {
			t.Errorf("latest: error %d, want %d", answer.ErrorCode, want)
		}
		if answer := b.listOffset(version, "tickets", -2); answer.ErrorCode != 0 ||
			answer.Offset != 0 {
			t.Errorf("earliest: %+v", answer)
		}
	})
}

// TestLargestTimestampIsBelowTheHighWatermark produces a record that only the leader has, so it can
// be lost. ListOffsets must not return it as the record with the largest timestamp (KIP-734).
func TestLargestTimestampIsBelowTheHighWatermark(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", replicated)
	// Broker 3 does not fetch the record, so the high watermark remains 0.
	ask[*kmsg.ProduceResponse](b, 9, produceRequestFor("tickets", 1, batch(t, 0, "x")))
	if answer := b.listOffset(7, "tickets", -3); answer.ErrorCode != 0 || answer.Offset != -1 ||
		answer.Timestamp != -1 {
		t.Errorf("largest timestamp, at high watermark 0: %+v", answer)
	}
}
