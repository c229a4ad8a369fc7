package replica

import (
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// barrierDisk makes the first sync of a leader epoch file wait until a second such sync has begun.
type barrierDisk struct {
	vfs.FS
	syncs  atomic.Int32
	second chan struct{} // closed when the second sync begins
	failed atomic.Bool
}

func (d *barrierDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "leader-epoch-checkpoint") {
		return file, err
	}
	return &barrierFile{file, d}, nil
}

type barrierFile struct {
	vfs.File
	disk *barrierDisk
}

func (f *barrierFile) Sync() error {
	if f.disk.syncs.Add(1) == 2 {
		close(f.disk.second)
	}
	select {
	case <-f.disk.second:
	case <-time.After(3 * time.Minute):
		f.disk.failed.Store(true)
	}
	return f.File.Sync()
}

// TestLeaderEpochsBeginConcurrently: 40 partitions that begin a leader epoch do not wait for each
// other's syncs. Apply still returns them in order.
func TestLeaderEpochsBeginConcurrently(t *testing.T) {
	disk := &barrierDisk{FS: vfs.NewMem(), second: make(chan struct{})}
	b := &broker{t: t, disk: disk, topics: map[string]*metadata.Topic{}, cluster: "ours"}
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(b.stop)
	b.topic("a", 40, nil)
	served := b.apply()
	if disk.failed.Load() {
		t.Error("no two epoch files were synced concurrently")
	}
	if len(served) != 40 {
		t.Fatalf("%d partitions are served, want 40", len(served))
	}
	for i, one := range served {
		if one.Partition != int32(i) {
			t.Fatalf("partition %d is returned at index %d", one.Partition, i)
		}
	}
}

// BenchmarkCreatePartitions creates 1,000 partitions and begins to lead them, on a real disk with
// real syncs. docs/bench/start.md contains results.
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
