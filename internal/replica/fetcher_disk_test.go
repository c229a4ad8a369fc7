package replica

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/vfs"
)

// slowEpochDisk is a filesystem that delays only the syncs of leader epoch files.
type slowEpochDisk struct {
	vfs.FS
	mu    sync.Mutex
	delay time.Duration
}

func (d *slowEpochDisk) setDelay(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = delay
}

func (d *slowEpochDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "leader-epoch-checkpoint") {
		return file, err
	}
	return &slowEpochFile{file, d}, nil
}

type slowEpochFile struct {
	vfs.File
	disk *slowEpochDisk
}

func (f *slowEpochFile) Sync() error {
	f.disk.mu.Lock()
	delay := f.disk.delay
	f.disk.mu.Unlock()
	time.Sleep(delay)
	return f.File.Sync()
}

// TestNewLeaderEpochsDoNotWaitForDisk checks that, when 19 of 20 partitions get a new leader epoch,
// no producer waits for a slow disk to sync the epoch files, and no record is lost or duplicated.
func TestNewLeaderEpochsDoNotWaitForDisk(t *testing.T) {
	const partitions = 20
	const syncDelay = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2, manyPartitions(partitions))
		disk := &slowEpochDisk{FS: n.nodes[2].disk}
		n.crash(2, false)
		n.nodes[2].through = disk
		n.start(2)
		n.apply()
		produce := func(index int32) ProduceResult {
			return n.nodes[1].Append(AcksAll,
				[]ProducePartition{{ID: id("a", index), Batch: batch(t, "x")}}).Wait(t.Context(),
				time.Minute)[0]
		}
		for i := range int32(partitions) {
			if r := produce(i); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		disk.setDelay(syncDelay)
		n.meta.mu.Lock()
		for i := 1; i < partitions; i++ { // all partitions except 0 have a new epoch
			p := *n.meta.topic.Partitions[i]
			p.LeaderEpoch++
			n.meta.topic.Partitions[i] = &p
		}
		n.meta.mu.Unlock()
		n.apply()
		begin := time.Now()
		var producers sync.WaitGroup
		took := make([]time.Duration, partitions)
		for i := int32(1); i < partitions; i++ {
			producers.Go(func() {
				if r := produce(i); r.Err != nil {
					t.Error(r.Err)
				}
				took[i] = time.Since(begin)
			})
		}
		time.Sleep(time.Second)
		for range 5 {
			moment := time.Now()
			if r := produce(0); r.Err != nil {
				t.Error(r.Err)
			}
			if waited := time.Since(moment); waited > 10*time.Millisecond {
				t.Errorf("a partition with an old epoch waited %v", waited)
			}
			time.Sleep(100 * time.Millisecond)
		}
		producers.Wait()
		if most := slices.Max(took[1:]); most > time.Second {
			t.Errorf("partitions with a new epoch were acknowledged after up to %v", most)
		}
		disk.setDelay(0)
		for i := range int32(partitions) {
			if a, b := n.nodes[1].store.Log(id("a", i)).LogEnd(),
				n.nodes[2].store.Log(id("a", i)).LogEnd(); a != b {
				t.Errorf("partition %d: log ends %d and %d", i, a, b)
			}
		}
	})
}

// TestWaitsForDisk checks that results that truncate or restart a log count as waiting for the
// disk.
func TestWaitsForDisk(t *testing.T) {
	for name, c := range map[string]struct {
		got  FollowerResult
		want bool
	}{
		"nothing":   {FollowerResult{DivergingEpoch: -1}, false},
		"batch":     {FollowerResult{DivergingEpoch: -1, Records: batch(t, "x")}, false},
		"diverging": {FollowerResult{DivergingEpoch: 0}, true},
		"out of range": {FollowerResult{DivergingEpoch: -1,
			Err: fmt.Errorf("%w", logstore.ErrOffsetOutOfRange)}, true},
		"another error":   {FollowerResult{DivergingEpoch: -1, Err: ErrNotLeader}, false},
		"malformed batch": {FollowerResult{DivergingEpoch: -1, Records: []byte("x")}, false},
	} {
		if got := waitsForDisk(&c.got); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
