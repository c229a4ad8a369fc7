package data

import (
	"bytes"
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
				LastEpoch: 2, DurableEnd: 10, LogStart: 4, HighWater: 9, BytesMax: 100,
				ReplicaIncarnation: "mZ81cQx4"},
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
				ReplicaIncarnation: want.ReplicaIncarnation,
			}) {
				t.Errorf("partition %d: %+v, want %+v", position, got, want)
			}
			position++
		}
	}
}

// FuzzDecodeFollowerFetch checks that arbitrary bytes decode to a response or an error, because
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

// TestFollowerTagOfAnotherLengthIsIgnored checks that a tag is ignored if it lacks an offset or its
// incarnation id has an invalid length.
func TestFollowerTagOfAnotherLengthIsIgnored(t *testing.T) {
	untagged := replica.FetchPartition{DurableEnd: -1}
	for length, want := range map[int]replica.FetchPartition{
		0: untagged, 23: untagged, 24: {}, 25: {ReplicaIncarnation: "\x00"}, 89: untagged,
	} {
		request, got := kmsg.NewFetchRequestTopicPartition(), untagged
		request.UnknownTags.Set(followerTag, make([]byte, length))
		if readFollowerTags(&request.UnknownTags, &got); got != want {
			t.Errorf("a tag of %d bytes: %+v, want %+v", length, got, want)
		}
	}
	answer := kmsg.NewFetchResponseTopicPartition()
	answer.UnknownTags.Set(followerTag, make([]byte, 25))
	if got := followerResult("a", &answer); got.LogEnd != -1 {
		t.Errorf("a response with a tag of 25 bytes: %+v", got)
	}
}
