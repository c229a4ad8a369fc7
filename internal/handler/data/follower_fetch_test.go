package data

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

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
	if err := FetchShape.Check(followerFetchVersion, true, body); err != nil {
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
	(&Handler{Access: &api.Access{}}).fetchPartitions(&wire.Request{},
		&fetchAnswer{image: metadata.NewImage("", metadata.CleanerBudget{}, nil, nil),
			request: &req}, &want)
	if !slices.Equal(want.Forgotten, forgotten) || len(want.Partitions) != 3 {
		t.Errorf("%+v", want)
	}
	if req.ReplicaState.ID != 7 || req.ReplicaState.Epoch != 1<<40 || !omitsUnchanged(&req) ||
		len(req.Topics) != 2 {
		t.Errorf("%+v", req)
	}
	position := 0
	for _, topic := range req.Topics {
		for i := range topic.Partitions {
			want := pull.Partitions[position]
			got := fetchPartition(want.ID, topic.TopicID, &topic.Partitions[i])
			if got != (replica.FetchPartition{
				ID: want.ID, Topic: want.Topic, Offset: want.Offset, BytesMax: want.BytesMax,
				LeaderEpoch: want.LeaderEpoch,
				LastEpoch:   want.LastEpoch, HighWater: want.HighWater, DurableEnd: want.DurableEnd,
				TombstoneClean:         want.TombstoneClean,
				ReplicasTombstoneClean: want.ReplicasTombstoneClean, LogStart: want.LogStart,
			}) {
				t.Errorf("partition %d: %+v, want %+v", position, got, want)
			}
			position++
		}
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
	numbers := func(encoded ...uint64) (value []byte) {
		for _, n := range encoded {
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
