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
	"heartwood.dev/heartwood/test/kit/seed"
)

func fsync(s *topicconfig.Settings) { s.Fsync = true }

// watchedDisk calls before at the beginning of each sync, of a file or a directory, and after at
// its end.
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

// settledSignal has a channel told whenever the store has synced a log, or a log stopped.
func settledSignal(s *Store) <-chan struct{} {
	signal := make(chan struct{}, 1)
	s.OnDurableEnd(func(PartitionID) {
		select {
		case signal <- struct{}{}:
		default:
		}
	})
	return signal
}

// awaitSafe waits until everything appended is safe.
func awaitSafe(t *testing.T, log *Log, signal <-chan struct{}) {
	t.Helper()
	for log.DurableEnd() < log.LogEnd() && log.Fault() == nil {
		select {
		case <-signal:
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d is safe after a minute", log.DurableEnd(), log.LogEnd())
		}
	}
}

// At every sync, and at random moments between, a power cut takes nothing of what DurableEnd has
// vouched for, whatever part of the rest reached the disk, and invents nothing. Segments roll every
// ten batches, and the background flushes, seals and checkpoints beside it.
func TestFsyncVouchesOnlyForWhatAPowerCutLeaves(t *testing.T) {
	mem := vfs.NewMem()
	var log atomic.Pointer[Log]
	type moment struct {
		safe int64
		disk *vfs.Mem
	}
	var mu sync.Mutex
	var moments []moment
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	look := func() {
		l := log.Load()
		if l == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		safe := l.DurableEnd() // before the clone: it may only grow
		disk := mem.CrashClone()
		if random.IntN(2) == 0 {
			disk = mem.CrashClonePartly(random.Uint64())
		}
		moments = append(moments, moment{safe, disk})
	}
	disk := &watchedDisk{FS: mem, before: look, after: look}
	store := openStore(t, disk)
	signal := settledSignal(store)
	made := createLog(t, store, settings(fsync))
	log.Store(made)
	var producers sync.WaitGroup
	next := make(chan struct{}, 1)
	next <- struct{}{}
	for range 4 {
		producers.Go(func() {
			for range 20 {
				<-next // keys name their offsets, so appends take turns; syncs go on beside them
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
		look()
	}
	producers.Wait()
	awaitSafe(t, made, signal)
	look()
	if len(moments) < 20 {
		t.Errorf("only %d moments", len(moments))
	}
	log.Store(nil)
	for i, m := range moments {
		crashed := createLog(t, openStore(t, m.disk), settings(fsync))
		if crashed.LogEnd() < m.safe {
			t.Fatalf("moment %d of %d: the log ends at %d, and %d was vouched for", i, len(moments),
				crashed.LogEnd(), m.safe)
		}
		if got := readKeys(t, crashed, 0); !slices.Equal(got, expectKeys(0, crashed.LogEnd())) {
			t.Fatalf("moment %d: read %v", i, got)
		}
	}
}

// While one sync is under way, any number of appends come in, and one more sync is enough for all
// of them.
func TestAppendsShareASync(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	disk := &stuckDisk{FS: trace}
	store := openStore(t, disk)
	signal := settledSignal(store)
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
	fill(100) // none of them waits for the disk
	if log.DurableEnd() != 0 {
		t.Errorf("%d is safe before any sync has ended", log.DurableEnd())
	}
	close(held.free)
	awaitSafe(t, log, signal)
	if syncs := strings.Count(trace.Take(), "\nsync "); syncs != 2 {
		t.Errorf("%d syncs for 101 appends, want 2", syncs)
	}
	if log.DurableEnd() != 101 {
		t.Errorf("%d is safe", log.DurableEnd())
	}
}

// A failed sync stops the log, vouches for nothing that it was to cover, and is not tried again:
// the kernel may have thrown away what it could not write, and would then report success.
func TestAFailedSyncVouchesForNothing(t *testing.T) {
	mem := vfs.NewMem()
	trace := vfs.NewTrace(mem, dataDir)
	fault := vfs.NewFault(trace)
	store := openStore(t, fault)
	signal := settledSignal(store)
	log := createLog(t, store, settings(fsync))
	fill(t, log, 3)
	awaitSafe(t, log, signal)
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*.log", Times: 1})
	trace.Take()
	if _, err := log.Append(keyed(t, "k3"), epoch0); err != nil {
		t.Fatal(err)
	}
	awaitSafe(t, log, signal)
	if !errors.Is(log.Fault(), ErrStorage) || !errors.Is(log.Fault(), syscall.EIO) {
		t.Fatalf("the log goes on: %v", log.Fault())
	}
	store.tick(epoch0, true)
	if _, err := log.Append(keyed(t, "k4"), epoch0); !errors.Is(err, ErrStorage) {
		t.Errorf("an append after it: %v", err)
	}
	if log.DurableEnd() != 3 {
		t.Errorf("%d is called safe, want 3", log.DurableEnd())
	}
	if lines := trace.Take(); strings.Contains(lines, "sync tickets-0") {
		t.Errorf("synced again:\n%s", lines)
	}
	if err := store.Close(); err == nil {
		t.Error("closed as if nothing had been")
	}
}

// Replicated counts what the operating system has; a change to Fsync counts what is on the disk
// from then on, and syncs the rest.
func TestDurabilityMayChange(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	signal := settledSignal(store)
	log := createLog(t, store, settings(nil))
	fill(t, log, 3)
	if log.DurableEnd() != 3 || log.disk.synced.Load() != 0 {
		t.Errorf("Replicated: %d is safe, %d synced", log.DurableEnd(), log.disk.synced.Load())
	}
	log.Configure(settings(fsync), true)
	awaitSafe(t, log, signal)
	if log.disk.synced.Load() != 3 {
		t.Errorf("Fsync: %d is synced", log.disk.synced.Load())
	}
}

// The background does not wait for its interval when much has come.
func TestManyUnsyncedBytesAreSyncedAheadOfTime(t *testing.T) {
	store, err := Open(Options{FS: vfs.NewMem(), Dir: dataDir, Logger: quiet(),
		FlushInterval: time.Hour, FlushBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	signal := settledSignal(store)
	log := createLog(t, store, settings(nil))
	fill(t, log, 40) // 4 KB
	select {
	case <-signal:
	case <-time.After(time.Minute):
		t.Fatal("nothing was synced")
	}
	if log.disk.synced.Load() == 0 {
		t.Error("nothing is synced")
	}
}

// What was cut off while a sync was under way is not vouched for by it.
func TestASyncThatOutlivesACutProvesNothing(t *testing.T) {
	disk := &stuckDisk{FS: vfs.NewMem()}
	store := openStore(t, disk)
	log := createLog(t, store, settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 20 }))
	fill(t, log, 5)
	held := disk.hold(vfs.OpSync, "*.log")
	done := make(chan error, 1)
	go func() { done <- log.commit() }()
	<-held.reached
	log.mu.Lock()
	log.disk.truncate(2) // only what the sync must respect: it must not report 5 as synced
	log.lineage.Add(1)
	log.mu.Unlock()
	close(held.free)
	if err := <-done; err != nil || log.disk.synced.Load() > 2 {
		t.Errorf("%v; %d is called synced", err, log.disk.synced.Load())
	}
}
