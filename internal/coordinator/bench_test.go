package coordinator

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/vfs"
)

// BenchmarkLoad reads a partition of 10,000 groups with 100 offsets each, as after a failover; the
// target is 5 s of processor time.
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
				Topic: fmt.Sprint("topic-", o%10), Partition: int32(o),
				Offset: group.Offset{Offset: int64(o), LeaderEpoch: 3,
					TopicID: [16]byte{15: byte(o)}, ExpireMs: -1},
			})
		}
		_, out, err := writer.state.Commit(time.Now(), commit)
		must(b, err)
		must(b, writer.settle(time.Now(), out))
	}
	log, err := broker.set.Leader(replica.PartitionID{Topic: OffsetsTopic}, 1)
	must(b, err)
	b.SetBytes(log.Stats().SizeBytes)
	began := cpu()
	b.ResetTimer()
	for range b.N {
		reader := newShard(broker.Runtime, topic.ID, topic.Partitions[0])
		must(b, reader.load())
		if reader.state.Groups() != groups || reader.state.Offsets() != groups*offsets {
			b.Fatalf("%d groups, %d offsets", reader.state.Groups(), reader.state.Offsets())
		}
	}
	b.ReportMetric((cpu()-began).Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkCommits is many groups that commit at once, each waiting for its answer, to one shard on
// the disk of the machine.
func BenchmarkCommits(b *testing.B) {
	for _, fsync := range []bool{false, true} {
		for _, groups := range []int{1, 16, 256} {
			b.Run(fmt.Sprint("fsync=", fsync, "/groups=", groups),
				func(b *testing.B) { benchCommits(b, groups, fsync) })
		}
	}
}

func benchCommits(b *testing.B, groups int, fsync bool) {
	broker := newBrokerAt(b, vfs.OS{}, b.TempDir(), metadata.NewID())
	defer broker.stop()
	broker.topic.Settings.Fsync = fsync
	broker.lead(1, self)
	for range 1000 {
		if _, err := broker.List(b.Context()); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	before, began := testutil.ToFloat64(broker.metrics.appends), cpu()
	b.ResetTimer()
	var all sync.WaitGroup
	for g := range groups {
		all.Go(func() {
			commit := group.Commit{Group: fmt.Sprint("group-", g), Generation: -1}
			for i := g; i < b.N; i += groups {
				commit.Offsets = []group.CommitOffset{{Topic: "tickets",
					Offset: group.Offset{Offset: int64(i), LeaderEpoch: 3, ExpireMs: -1}}}
				if errs, err := broker.Commit(b.Context(), commit); err != nil || errs[0] != nil {
					b.Error(errs, err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric((testutil.ToFloat64(broker.metrics.appends)-before)/float64(b.N), "appends/op")
	b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N), "cpu-us/op")
}

// cpu is the processor time of this process so far, user and system.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail with these arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
