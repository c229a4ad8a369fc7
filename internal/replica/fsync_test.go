package replica

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// slowDisk is a filesystem that blocks the syncs of segment files until the test lets them
// continue, or makes them fail.
type slowDisk struct {
	vfs.FS
	gate chan error // nil if syncs are not blocked
}

func (d *slowDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || filepath.Ext(name) != ".log" {
		return file, err
	}
	return &slowFile{file, d}, nil
}

type slowFile struct {
	vfs.File
	disk *slowDisk
}

func (f *slowFile) Sync() error {
	if f.disk.gate != nil {
		if err, open := <-f.disk.gate; open && err != nil {
			return err
		}
	}
	return f.File.Sync()
}

var errDisk = errors.New("the disk is gone")

// newFsyncBroker returns a broker that leads a partition under durability Fsync, and the broker's
// disk, which blocks syncs from now on.
func newFsyncBroker(t *testing.T) (*slowDisk, *broker) {
	t.Helper()
	disk := &slowDisk{FS: vfs.NewMem()}
	b := &broker{t: t, disk: disk, topics: map[string]*metadata.Topic{}, cluster: "ours"}
	if err := disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	// The long interval disables background flushes. A flush would wait for the blocked sync, and the
	// bubble's clock could not advance.
	store, err := logstore.Open(logstore.Options{FS: disk, Dir: "/data",
		Logger: slog.New(slog.DiscardHandler), FlushInterval: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b.store = store
	b.Set = NewSet(Options{NodeID: self, Store: store, Cluster: "ours"})
	b.topic("a", 1, func(topic *metadata.Topic) { topic.Settings.Fsync = true })
	b.apply()
	disk.gate = make(chan error)
	return disk, b
}

// TestFsyncMakesProducersWaitForSync checks that requests with acks=1 and acks=all wait for the
// sync under durability Fsync, in the purgatory and without a lock. Requests with acks=0 must not
// wait. Consumers must not read a record before its sync. If the sync fails, all waiting requests
// must fail with a storage error.
func TestFsyncMakesProducersWaitForSync(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testFsync(t, fails) })
	}
}

func testFsync(t *testing.T, fails bool) {
	disk, b := newFsyncBroker(t)
	results := make(chan ProduceResult, 2)
	for _, acks := range []int16{1, AcksAll} {
		go func() {
			results <- b.Produce(t.Context(), acks, time.Hour,
				[]ProducePartition{{ID: id("a", 0), Batch: batch(t, "x")}})[0]
		}()
	}
	if result := b.Produce(t.Context(), 0, time.Hour,
		[]ProducePartition{{ID: id("a", 0), Batch: batch(t, "y")}})[0]; result.Err != nil {
		t.Errorf("acks 0: %v", result.Err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	log, err := b.Leader(id("a", 0), -1)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 0 || log.HighWatermark() != 0 || log.LogEnd() != 3 {
		t.Errorf("before the sync: %d results, high watermark %d, log end %d", len(results),
			log.HighWatermark(), log.LogEnd())
	}
	if fails {
		disk.gate <- errDisk
	}
	close(disk.gate)
	for range 2 {
		switch result := <-results; {
		case fails && !errors.Is(result.Err, logstore.ErrStorage):
			t.Errorf("after a failed sync: %v", result.Err)
		case !fails && result.Err != nil:
			t.Error(result.Err)
		}
	}
	synctest.Wait()
	if want := int64(3); !fails && log.HighWatermark() != want || fails &&
		log.HighWatermark() != 0 {
		t.Errorf("fails %t: high watermark %d", fails, log.HighWatermark())
	}
	b.Close()
	if err := b.store.Close(); (err != nil) != fails {
		t.Errorf("fails %t: close: %v", fails, err)
	}
}

// TestChangeToReplicatedEndsTheWait checks that producers are answered before a running sync has
// ended if the topic's durability changes to Replicated.
func TestChangeToReplicatedEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, b := newFsyncBroker(t)
		result := make(chan ProduceResult, 1)
		go func() { result <- b.produce(id("a", 0), "x") }()
		synctest.Wait()
		b.topic("a", 1, nil)
		b.apply()
		synctest.Wait()
		if len(result) != 1 {
			t.Error("the produce still waits")
		}
		close(disk.gate)
		if r := <-result; r.Err != nil {
			t.Error(r.Err)
		}
		b.Close()
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	})
}
