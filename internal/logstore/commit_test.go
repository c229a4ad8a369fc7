package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
)

func fsync(s *topicconfig.Settings) { s.Fsync = true }

// watchedDisk calls the functions before and after at the beginning and at the end of each sync of
// a file or directory.
type watchedDisk struct {
	vfs.FS
	before, after func()
}

func (d *watchedDisk) Create(name string) (vfs.File, error) { return d.wrap(d.FS.Create(name)) }

func (d *watchedDisk) OpenReadWrite(name string) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name))
}

func (d *watchedDisk) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &watchedFile{file, d}, nil
}

func (d *watchedDisk) SyncDir(name string) error {
	d.before()
	defer d.after()
	return d.FS.SyncDir(name)
}

type watchedFile struct {
	vfs.File
	disk *watchedDisk
}

func (f *watchedFile) Sync() error {
	f.disk.before()
	defer f.disk.after()
	return f.File.Sync()
}

// durableSignal returns a channel that receives a value whenever the store has synced a log or a
// log has stopped because of a failure.
func durableSignal(s *Store) <-chan struct{} {
	signal := make(chan struct{}, 1)
	s.OnDurableEnd(func(PartitionID) {
		select {
		case signal <- struct{}{}:
		default:
		}
	})
	return signal
}

// awaitDurable waits until the log's durable end offset equals its log end, or until the log has
// stopped because of a failure.
func awaitDurable(t *testing.T, log *Log, signal <-chan struct{}) {
	t.Helper()
	for log.DurableEnd() < log.LogEnd() && log.Fault() == nil {
		select {
		case <-signal:
		case <-time.After(await.Limit):
			t.Fatalf("durable end %d of %d after %v", log.DurableEnd(), log.LogEnd(),
				await.Limit)
		}
	}
}

// TestDurableEndSurvivesPowerFailure checks that a power failure, during a sync or at a random
// moment between syncs, loses no record below DurableEnd. Records above DurableEnd may be lost, but
// no record appears that was not appended. Segments roll every ten batches, and the background work
// flushes, seals and writes checkpoints concurrently.
func TestDurableEndSurvivesPowerFailure(t *testing.T) {
	mem := vfs.NewMem()
	var log atomic.Pointer[Log]
	type moment struct {
		durable int64
		disk    *vfs.Mem
	}
	var mu sync.Mutex
	var moments []moment
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	crash := func() {
		l := log.Load()
		if l == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		durable := l.DurableEnd() // loaded before the disk is cloned, because the offset may rise
		disk := mem.CrashClone()
		if random.IntN(2) == 0 {
			disk = mem.CrashClonePartly(random.Uint64())
		}
		moments = append(moments, moment{durable, disk})
	}
	disk := &watchedDisk{FS: mem, before: crash, after: crash}
	store := openStore(t, disk)
	signal := durableSignal(store)
	made := createLog(t, store, settings(fsync))
	log.Store(made)
	var producers sync.WaitGroup
	next := make(chan struct{}, 1)
	next <- struct{}{}
	for range 4 {
		producers.Go(func() {
			for range 20 {
				// A key contains its record's offset, so only one producer appends at a time. Syncs
				// run concurrently.
				<-next
				_, err := made.Append(keyed(t, fmt.Sprintf("k%d", made.LogEnd())), epoch0)
				next <- struct{}{}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		store.tick(epoch0, true)
		crash()
	}
	producers.Wait()
	awaitDurable(t, made, signal)
	crash()
	if len(moments) < 20 {
		t.Errorf("only %d moments", len(moments))
	}
	log.Store(nil)
	for i, m := range moments {
		crashed := createLog(t, openStore(t, m.disk), settings(fsync))
		if crashed.LogEnd() < m.durable {
			t.Fatalf("moment %d of %d: the log ends at %d, below the durable end %d", i,
				len(moments),
				crashed.LogEnd(), m.durable)
		}
		if got := readKeys(t, crashed, 0); !slices.Equal(got, expectKeys(0, crashed.LogEnd())) {
			t.Fatalf("moment %d: read %v", i, got)
		}
	}
}

// TestAppendsShareASync appends a hundred batches while a sync is running. One more sync makes all
// of them durable.
func TestAppendsShareASync(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	disk := &stuckDisk{FS: trace}
	store := openStore(t, disk)
	signal := durableSignal(store)
	log := createLog(t, store,
		settings(func(s *topicconfig.Settings) { s.Fsync, s.SegmentBytes = true, 1<<20 }))
	trace.Take()
	held := disk.hold(vfs.OpSync, "*.log")
	fill := func(n int) {
		for range n {
			if _, err := log.Append(keyed(t, "k"), epoch0); err != nil {
				t.Error(err)
			}
		}
	}
	fill(1)
	<-held.reached
	fill(100) // no append waits for the sync
	if log.DurableEnd() != 0 {
		t.Errorf("durable end %d before any sync has ended", log.DurableEnd())
	}
	close(held.free)
	awaitDurable(t, log, signal)
	if syncs := strings.Count(trace.Take(), "\nsync "); syncs != 2 {
		t.Errorf("%d syncs for 101 appends, want 2", syncs)
	}
	if log.DurableEnd() != 101 {
		t.Errorf("durable end %d", log.DurableEnd())
	}
}

// TestFailedSyncStopsTheLog checks that a failed sync stops the log and does not advance the
// durable end. The log does not retry the sync: the kernel may have dropped the pages that it
// failed to write, and a second sync would then succeed wrongly.
func TestFailedSyncStopsTheLog(t *testing.T) {
	mem := vfs.NewMem()
	trace := vfs.NewTrace(mem, dataDir)
	fault := vfs.NewFault(trace)
	store := openStore(t, fault)
	signal := durableSignal(store)
	log := createLog(t, store, settings(fsync))
	fill(t, log, 3)
	awaitDurable(t, log, signal)
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*.log", Times: 1})
	trace.Take()
	if _, err := log.Append(keyed(t, "k3"), epoch0); err != nil {
		t.Fatal(err)
	}
	awaitDurable(t, log, signal)
	if !errors.Is(log.Fault(), ErrStorage) || !errors.Is(log.Fault(), syscall.EIO) {
		t.Fatalf("the log did not stop: %v", log.Fault())
	}
	store.tick(epoch0, true)
	if _, err := log.Append(keyed(t, "k4"), epoch0); !errors.Is(err, ErrStorage) {
		t.Errorf("an append after the failed sync: %v, want ErrStorage", err)
	}
	if log.DurableEnd() != 3 {
		t.Errorf("durable end %d, want 3", log.DurableEnd())
	}
	if lines := trace.Take(); strings.Contains(lines, "sync tickets-0") {
		t.Errorf("synced again:\n%s", lines)
	}
	if err := store.Close(); err == nil {
		t.Error("close returned no error")
	}
}

// TestDurabilityChange checks that with durability Replicated, the durable end offset includes
// records that are only in the page cache. After a change to Fsync the offset includes only synced
// records, and the log syncs the other records.
func TestDurabilityChange(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	signal := durableSignal(store)
	log := createLog(t, store, settings(nil))
	fill(t, log, 3)
	if log.DurableEnd() != 3 || log.disk.Synced() != 0 {
		t.Errorf("Replicated: durable end %d, synced %d", log.DurableEnd(), log.disk.Synced())
	}
	log.Configure(settings(fsync), true)
	awaitDurable(t, log, signal)
	if log.disk.Synced() != 3 {
		t.Errorf("Fsync: %d is synced", log.disk.Synced())
	}
}

// TestManyUnsyncedBytesCauseASync checks that when more than FlushBytes bytes are unsynced, the log
// is synced at once, before the flush interval ends.
func TestManyUnsyncedBytesCauseASync(t *testing.T) {
	store, err := Open(Options{FS: vfs.NewMem(), Dir: dataDir, Logger: quiet(),
		FlushInterval: time.Hour, FlushBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	signal := durableSignal(store)
	log := createLog(t, store, settings(nil))
	fill(t, log, 40) // 4 KB
	select {
	case <-signal:
	case <-time.After(await.Limit):
		t.Fatal("nothing was synced")
	}
	if log.disk.Synced() == 0 {
		t.Error("nothing is synced")
	}
}

// TestSyncDuringTruncationDoesNotAdvanceDurableEnd truncates a log during a sync. The end of the
// sync must not raise the durable end offset to the end of the removed records.
func TestSyncDuringTruncationDoesNotAdvanceDurableEnd(t *testing.T) {
	disk := &stuckDisk{FS: vfs.NewMem()}
	store := openStore(t, disk)
	log := createLog(t, store, settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 20 }))
	fill(t, log, 5)
	held := disk.hold(vfs.OpSync, "*.log")
	done := make(chan error, 1)
	go func() { done <- log.disk.Commit() }()
	<-held.reached
	log.mu.Lock()
	log.disk.TruncateLocked(2) // the step of a truncation that changes the durable end
	log.truncations.Add(1)
	log.mu.Unlock()
	close(held.free)
	if err := <-done; err != nil || log.disk.Synced() > 2 {
		t.Errorf("%v; synced %d", err, log.disk.Synced())
	}
}
