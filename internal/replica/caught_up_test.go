package replica

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// caughtUp returns a broker that leads partitions with one record each, and the fetch request of a
// follower that has all these records.
func caughtUp(t testing.TB, partitions int) (*Set, FetchRequest) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	store, err := logstore.Open(logstore.Options{FS: disk, Dir: "/data",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet(Options{NodeID: self, Store: store, Cluster: "ours"})
	t.Cleanup(func() {
		s.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	topic := &metadata.Topic{Name: "a", ID: metadata.NewID(), Settings: topicconfig.Default()}
	follower := metadata.InSync{Broker: 2, Epoch: 1}
	req := FetchRequest{BytesMin: 1, BytesMax: followerBytesMax, Replica: &follower}
	for i := range int32(partitions) {
		topic.Partitions = append(topic.Partitions, &metadata.Partition{
			Index: i, Replicas: []int32{self, 2}, Leader: self, LeaderEpoch: 1,
			ISR: []int32{self, 2},
		})
		req.Partitions = append(req.Partitions, FetchPartition{
			ID: id("a", i), Topic: topic.ID, Offset: 1, DurableEnd: 1,
			BytesMax:    followerPartitionBytesMax,
			LeaderEpoch: 1, LastEpoch: 1, HighWater: 1,
		})
	}
	brokers := []metadata.Broker{{ID: self, Epoch: 1}, {ID: 2, Epoch: 1}}
	if _, err := s.Apply(metadata.NewImage("ours", metadata.CleanerBudget{}, brokers,
		[]*metadata.Topic{topic})); err != nil {
		t.Fatal(err)
	}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	for _, p := range req.Partitions {
		builder.Reset(record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
			LeaderEpoch: -1})
		builder.Add(&record.Record{Timestamp: 1, Value: []byte("a record")})
		one, err := builder.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Append(1, []ProducePartition{{ID: p.ID, Batch: one}}).Wait(t.Context(),
			time.Minute)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return s, req
}

// TestCaughtUpFollowerReceivesChangedOffsets checks that the response to a follower that has all
// records contains the offsets of both partitions, although no log is read. OffsetsChanged must be
// set only for partition 1, for which the follower has sent another high watermark.
func TestCaughtUpFollowerReceivesChangedOffsets(t *testing.T) {
	s, req := caughtUp(t, 2)
	req.Partitions[1].HighWater = 0
	s.Fetch(t.Context(), req) // reports to the leader that the follower has all records
	for i, got := range s.Fetch(t.Context(), req) {
		if got.Err != nil || got.Data != nil {
			t.Errorf("partition %d: %+v, want no data", i, got)
		}
		if got.HighWater != 1 || got.LogStart != 0 {
			t.Errorf("partition %d: %+v, want offsets 0 to 1", i, got)
		}
		if got.Stable != 1 {
			t.Errorf("partition %d: stable offset %d, want 1", i, got.Stable)
		}
		if want := i == 1; got.OffsetsChanged != want {
			t.Errorf("partition %d: OffsetsChanged %t, want %t", i, got.OffsetsChanged, want)
		}
	}
}

// TestFollowerReceivesAppendedRecords checks that a second read, which reuses the slices of the
// first, returns appended records, with the partitions in the same order.
func TestFollowerReceivesAppendedRecords(t *testing.T) {
	s, req := caughtUp(t, 3)
	// The follower now appears to lack this record.
	req.Partitions[2].Offset, req.Partitions[2].DurableEnd = 0, 0
	// Partition 2 has a record for the follower, so the fetch returns before this time.
	req.Wait = time.Minute
	for i, got := range s.Fetch(t.Context(), req) {
		if has := got.Data != nil && got.Data.Length > 0; got.Err != nil ||
			got.ID != id("a", int32(i)) || has != (i == 2) {
			t.Errorf("partition %d: %+v", i, got)
		}
		if got.Data != nil {
			got.Data.Release()
		}
	}
}

// BenchmarkCaughtUpFollowerFetch measures the leader's work for a fetch of a follower that has all
// records. The first cases measure a fetch without a session, which a follower of an earlier
// version sends for each record in any partition. The cases named "session" measure the append of
// one record and the fetch in a session that acknowledges this record.
func BenchmarkCaughtUpFollowerFetch(b *testing.B) {
	for _, partitions := range []int{1, 333} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s, req := caughtUp(b, partitions)
			b.ReportAllocs()
			for b.Loop() {
				s.Fetch(b.Context(), req)
			}
		})
	}
	for _, partitions := range []int{1, 333, 3330} {
		b.Run(fmt.Sprintf("session/partitions=%d", partitions), func(b *testing.B) {
			s, req := caughtUp(b, partitions)
			has := req.Partitions[0]
			req = inSession(b, s, req)
			one := batchOfOne(b)
			b.ReportAllocs()
			for b.Loop() {
				s.Append(1, []ProducePartition{{ID: has.ID, Batch: one}})
				has.Offset, has.DurableEnd = has.Offset+1, has.Offset+1
				req.Partitions = []FetchPartition{has}
				nextFetch(b, s, &req)
			}
		})
	}
}

// batchOfOne returns a batch of one record. The batch can be appended repeatedly.
func batchOfOne(t testing.TB) []byte {
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		LeaderEpoch: -1})
	builder.Add(&record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("a record")})
	one, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return one
}
