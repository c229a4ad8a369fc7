package replica

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// countingDisk is a filesystem that counts the syncs of files and directories.
type countingDisk struct {
	vfs.FS
	syncs atomic.Int32
}

func (d *countingDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	return &countingFile{file, d}, err
}

func (d *countingDisk) SyncDir(name string) error {
	d.syncs.Add(1)
	return d.FS.SyncDir(name)
}

type countingFile struct {
	vfs.File
	disk *countingDisk
}

func (f *countingFile) Sync() error {
	f.disk.syncs.Add(1)
	return f.File.Sync()
}

// TestLeaderEpochsBeginWithoutDisk checks that 40 partitions begin a leader epoch without a single
// file sync, and that Apply returns them in order.
func TestLeaderEpochsBeginWithoutDisk(t *testing.T) {
	disk := &countingDisk{FS: vfs.NewMem()}
	b := &broker{t: t, disk: disk, topics: map[string]*metadata.Topic{}, cluster: "ours"}
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(b.stop)
	topic := b.topic("a", 40, nil)
	b.apply()
	for i, p := range topic.Partitions {
		next := *p
		next.LeaderEpoch++
		topic.Partitions[i] = &next
	}
	before := disk.syncs.Load()
	served := b.apply()
	if n := disk.syncs.Load() - before; n != 0 {
		t.Errorf("%d syncs", n)
	}
	if len(served) != 40 {
		t.Fatalf("%d partitions are served, want 40", len(served))
	}
	for i, one := range served {
		if one.Partition != int32(i) || one.LeaderEpoch != 2 {
			t.Fatalf("partition %d in epoch %d is returned at index %d", one.Partition,
				one.LeaderEpoch, i)
		}
	}
}

// BenchmarkCreatePartitions creates 1,000 partitions on a real disk with real syncs, and makes the
// broker their leader. docs/internals/bench/start.md contains results.
func BenchmarkCreatePartitions(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		store, err := logstore.Open(logstore.Options{FS: vfs.OS{}, Dir: b.TempDir(),
			Logger: slog.New(slog.DiscardHandler), FlushInterval: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		set := NewSet(Options{NodeID: self, Store: store})
		topic := &metadata.Topic{Name: "many", ID: metadata.NewID(),
			Settings: topicconfig.Default()}
		for i := range int32(1000) {
			topic.Partitions = append(topic.Partitions,
				&metadata.Partition{Index: i, Replicas: []int32{self}, Leader: self, LeaderEpoch: 1,
					ISR: []int32{self}})
		}
		image := metadata.NewImage("ours", metadata.CleanerBudget{}, nil, []*metadata.Topic{topic})
		b.StartTimer()
		if served, err := set.Apply(image); err != nil || len(served) != 1000 {
			b.Fatalf("%d served, %v", len(served), err)
		}
		b.StopTimer()
		set.Close()
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
