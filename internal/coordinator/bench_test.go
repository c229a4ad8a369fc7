package coordinator

import (
	"fmt"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
)

// BenchmarkLoad reads a partition of 10,000 groups with 100 offsets each, as after a failover; the target is 5 s of processor time.
func BenchmarkLoad(b *testing.B) {
	const groups, offsets = 10_000, 100
	broker := newBroker(b, vfs.NewMem(), metadata.NewID())
	defer broker.stop()
	broker.lead(1, self)
	topic := broker.image.Load().Topic(OffsetsTopic)
	writer := newShard(broker.Runtime, topic.ID, topic.Partitions[0])
	must(b, writer.load())
	writer.state.Loaded(time.Now())
	for g := range groups {
		commit := group.Commit{Group: fmt.Sprint("group-", g), Generation: -1}
		for o := range offsets {
			commit.Offsets = append(commit.Offsets, group.CommitOffset{
				Topic: fmt.Sprint("topic-", o%10), Partition: int32(o), Offset: group.Offset{Offset: int64(o), LeaderEpoch: 3, ExpireMs: -1},
			})
		}
		_, out, err := writer.state.Commit(time.Now(), commit)
		must(b, err)
		must(b, writer.settle(time.Now(), out))
	}
	log, err := broker.set.Leader(replica.PartitionID{Topic: OffsetsTopic}, 1)
	must(b, err)
	b.SetBytes(log.Stats().SizeBytes)
	b.ResetTimer()
	for range b.N {
		reader := newShard(broker.Runtime, topic.ID, topic.Partitions[0])
		must(b, reader.load())
		if reader.state.Groups() != groups || reader.state.Offsets() != groups*offsets {
			b.Fatalf("%d groups, %d offsets", reader.state.Groups(), reader.state.Offsets())
		}
	}
}
