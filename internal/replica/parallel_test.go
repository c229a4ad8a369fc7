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

// meetingDisk lets the sync of a file of leader epochs end once another one is under way, the first
// time.
type meetingDisk struct {
	vfs.FS
	inside atomic.Int32
	met    chan struct{}
	failed atomic.Bool
}

func (d *meetingDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "leader-epoch-checkpoint") {
		return file, err
	}
	return &meetingFile{file, d}, nil
}

type meetingFile struct {
	vfs.File
	disk *meetingDisk
}

func (f *meetingFile) Sync() error {
	if f.disk.inside.Add(1) == 2 {
		close(f.disk.met)
	}
	select {
	case <-f.disk.met:
	case <-time.After(3 * time.Minute):
		f.disk.failed.Store(true)
	}
	return f.File.Sync()
}

// A thousand partitions that begin to be led do not wait for each other's syncs; what is told of
// them is in their order all the same.
func TestPartitionsBeginToBeLedSideBySide(t *testing.T) {
	disk := &meetingDisk{FS: vfs.NewMem(), met: make(chan struct{})}
	b := &broker{t: t, disk: disk, topics: map[string]*metadata.Topic{}, cluster: "ours"}
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(b.stop)
	b.topic("a", 40, nil)
	served := b.apply()
	if disk.failed.Load() {
		t.Error("no two leader epochs were written at once")
	}
	if len(served) != 40 {
		t.Fatalf("%d are served", len(served))
	}
	for i, one := range served {
		if one.Partition != int32(i) {
			t.Fatalf("partition %d is told of as number %d", one.Partition, i)
		}
	}
}

// BenchmarkMakePartitions makes 1,000 partitions, and begins to lead them, on a real disk with real
// syncs. docs/bench/start.md has figures.
func BenchmarkMakePartitions(b *testing.B) {
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
