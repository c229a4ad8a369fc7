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
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// tardyDisk takes its time to sync the file of leader epochs, and nothing else.
type tardyDisk struct {
	vfs.FS
	mu   sync.Mutex
	sync time.Duration
}

func (d *tardyDisk) take(each time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sync = each
}

func (d *tardyDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasPrefix(filepath.Base(name), "leader-epoch-checkpoint") {
		return file, err
	}
	return &tardyFile{file, d}, nil
}

type tardyFile struct {
	vfs.File
	disk *tardyDisk
}

func (f *tardyFile) Sync() error {
	f.disk.mu.Lock()
	each := f.disk.sync
	f.disk.mu.Unlock()
	time.Sleep(each)
	return f.File.Sync()
}

// TestNewLeaderEpochsDoNotHoldUpOthers: a follower's disk takes its time for the first batches of
// new leader epochs; producers of partitions whose epoch is old do not wait for that, those of the
// new ones do, and no record is lost or comes twice.
func TestNewLeaderEpochsDoNotHoldUpOthers(t *testing.T) {
	const partitions = 20
	const syncTakes = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2, manyPartitions(partitions))
		disk := &tardyDisk{FS: n.nodes[2].disk}
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
		disk.take(syncTakes)
		n.meta.mu.Lock()
		for i := 1; i < partitions; i++ { // all but the first get a new epoch
			p := *n.meta.topic.Partitions[i]
			p.LeaderEpoch++
			n.meta.topic.Partitions[i] = &p
		}
		n.meta.mu.Unlock()
		n.apply()
		begin := time.Now()
		var news sync.WaitGroup
		took := make([]time.Duration, partitions)
		for i := int32(1); i < partitions; i++ {
			news.Go(func() {
				if r := produce(i); r.Err != nil {
					t.Error(r.Err)
				}
				took[i] = time.Since(begin)
			})
		}
		time.Sleep(time.Second)
		for range 5 {
			at := time.Now()
			if r := produce(0); r.Err != nil {
				t.Error(r.Err)
			}
			if waited := time.Since(at); waited > 10*time.Millisecond {
				t.Errorf("a partition whose epoch is old waits for %v", waited)
			}
			time.Sleep(100 * time.Millisecond)
		}
		news.Wait()
		if least, most := slices.Min(took[1:]),
			slices.Max(took[1:]); least < syncTakes || most > 3*syncTakes {
			t.Errorf(
				"partitions with a new epoch are acknowledged after %v to %v, and one sync takes %v",
				least,
				most,
				syncTakes,
			)
		}
		disk.take(0)
		for i := range int32(partitions) {
			if a, b := n.nodes[1].store.Log(id("a", i)).LogEnd(),
				n.nodes[2].store.Log(id("a", i)).LogEnd(); a != b {
				t.Errorf("partition %d ends at %d and %d", i, a, b)
			}
		}
	})
}

// TestWhatWaitsForTheDisk is the first batch of an epoch, a cut, and a new beginning.
func TestWhatWaitsForTheDisk(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	log := b.store.Log(id("a", 0))
	of := func(epoch int32) []byte {
		one := batch(t, "x")
		record.Batch(one).SetLeaderEpoch(epoch)
		return one
	}
	for name, c := range map[string]struct {
		got  FollowerResult
		want bool
	}{
		"nothing":            {FollowerResult{DivergingEpoch: -1}, false},
		"batch of the epoch": {FollowerResult{DivergingEpoch: -1, Records: of(1)}, false},
		"batch of the next":  {FollowerResult{DivergingEpoch: -1, Records: of(2)}, true},
		"logs part":          {FollowerResult{DivergingEpoch: 0}, true},
		"out of range": {FollowerResult{DivergingEpoch: -1,
			Err: fmt.Errorf("%w", logstore.ErrOffsetOutOfRange)}, true},
		"another error":       {FollowerResult{DivergingEpoch: -1, Err: ErrNotLeader}, false},
		"bytes of no meaning": {FollowerResult{DivergingEpoch: -1, Records: []byte("x")}, false},
	} {
		if got := waitsForDisk(log, &c.got); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
