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
	"heartwood.dev/heartwood/test/kit/await"
)

// pollLoaded is like awaitLoaded, but can be used outside a synctest bubble.
func (b *broker) pollLoaded() {
	b.t.Helper()
	await.Until(b.t, "the shard is loaded", func() bool {
		_, err := b.List(b.t.Context())
		return err == nil
	})
}

// BenchmarkLoad loads a partition that contains 10,000 groups with 100 offsets each, as after a
// failover. The target is at most 5 s of CPU time.
func BenchmarkLoad(b *testing.B) {
	const groups, offsets = 10_000, 100
	broker := newBroker(b, vfs.NewMem(), metadata.NewID())
	defer broker.Stop()
	broker.Lead(1, self)
	broker.pollLoaded()
	for g := range groups {
		commit := group.Commit{Group: fmt.Sprint("group-", g), Generation: -1}
		for o := range offsets {
			commit.Offsets = append(commit.Offsets, group.CommitOffset{
				Topic: fmt.Sprint("topic-", o%10), Partition: int32(o),
				Offset: group.Offset{Offset: int64(o), LeaderEpoch: 3,
					TopicID: [16]byte{15: byte(o)}, ExpireMs: -1},
			})
		}
		_, err := broker.Commit(b.Context(), commit)
		must(b, err)
	}
	log, err := broker.Replicas.Leader(replica.PartitionID{Topic: OffsetsTopic}, 1)
	must(b, err)
	b.SetBytes(log.Stats().SizeBytes)
	began := cpuTime()
	b.ResetTimer()
	for epoch := range int32(b.N) {
		broker.Lead(epoch+2, self)
		broker.pollLoaded()
		if all, err := broker.List(b.Context()); len(all) != groups || err != nil {
			b.Fatalf("%d groups, %v", len(all), err)
		}
	}
	b.ReportMetric((cpuTime()-began).Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkCommits measures concurrent commits of groups to one shard on a real disk. Each group
// sends its next commit when the previous one has been answered.
func BenchmarkCommits(b *testing.B) {
	for _, fsync := range []bool{false, true} {
		for _, groups := range []int{1, 16, 256} {
			b.Run(fmt.Sprint("fsync=", fsync, "/groups=", groups),
				func(b *testing.B) { benchmarkCommits(b, groups, fsync) })
		}
	}
}

func benchmarkCommits(b *testing.B, groups int, fsync bool) {
	broker := newBrokerAt(b, vfs.OS{}, b.TempDir(), metadata.NewID())
	defer broker.Stop()
	broker.Topic.Settings.Fsync = fsync
	broker.Lead(1, self)
	broker.pollLoaded()
	before, began := testutil.ToFloat64(broker.metrics.appends), cpuTime()
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
	b.ReportMetric(float64((cpuTime()-began).Microseconds())/float64(b.N), "cpu-us/op")
}

// cpuTime returns the user and system time that this process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // Getrusage cannot fail with these arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
