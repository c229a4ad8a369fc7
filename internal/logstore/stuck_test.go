package logstore

import (
	"errors"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
)

// stuckDisk is a disk on which operations selected by hold do not return until the test allows it.
type stuckDisk struct {
	vfs.FS
	now atomic.Pointer[stuck]
}

// stuck selects operations. They do not return before free is closed.
type stuck struct {
	op      vfs.Op
	name    string // pattern of the file's base name
	once    sync.Once
	reached chan struct{} // closed when an operation is stuck
	free    chan struct{}
}

func (d *stuckDisk) hold(op vfs.Op, name string) *stuck {
	s := &stuck{op: op, name: name, reached: make(chan struct{}), free: make(chan struct{})}
	d.now.Store(s)
	return s
}

func (d *stuckDisk) pass(op vfs.Op, name string) {
	s := d.now.Load()
	if s == nil || s.op != op {
		return
	}
	if matched, err := path.Match(s.name, filepath.Base(name)); err == nil && matched {
		s.once.Do(func() { close(s.reached) })
		<-s.free
	}
}

func (d *stuckDisk) Create(name string) (vfs.File, error) {
	d.pass(vfs.OpCreate, name)
	file, err := d.FS.Create(name)
	return d.wrap(file, err)
}

func (d *stuckDisk) OpenReadWrite(name string) (vfs.File, error) {
	file, err := d.FS.OpenReadWrite(name)
	return d.wrap(file, err)
}

func (d *stuckDisk) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &stuckFile{file, d}, nil
}

func (d *stuckDisk) Rename(oldName, newName string) error {
	d.pass(vfs.OpRename, oldName)
	return d.FS.Rename(oldName, newName)
}

func (d *stuckDisk) SyncDir(name string) error {
	d.pass(vfs.OpSyncDir, name)
	return d.FS.SyncDir(name)
}

type stuckFile struct {
	vfs.File
	disk *stuckDisk
}

func (f *stuckFile) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.pass(vfs.OpWrite, f.Name())
	return f.File.WriteAt(p, offset)
}

func (f *stuckFile) Sync() error {
	f.disk.pass(vfs.OpSync, f.Name())
	return f.File.Sync()
}

// TestReadersDoNotWaitForTheDisk checks that reads, lookups, reports, the scheduling of the cleaner
// and a metrics scrape do not wait for the locks of an operation that waits for the disk. If one of
// them waited, this test would not end.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	for _, test := range []struct {
		name string
		op   vfs.Op
		file string
		do   func(*testing.T, *Store, *Log)
	}{
		{"an append's write", vfs.OpWrite, "*.log",
			func(t *testing.T, _ *Store, l *Log) { fill(t, l, 1) }},
		{"a roll's new file", vfs.OpCreate, "*.timeindex",
			func(t *testing.T, _ *Store, l *Log) { fill(t, l, 20) }},
		{"a flush's sync", vfs.OpSync, "*.log", func(t *testing.T, s *Store, l *Log) {
			fill(t, l, 1)
			s.tick(epoch0, false)
		}},
		{"a seal's sync", vfs.OpSync, "*.index", func(t *testing.T, s *Store, l *Log) {
			fill(t, l, 20)
			s.tick(epoch0, false)
		}},
		{"a checkpoint's sync", vfs.OpSync, checkpoint.RecoveryPointFile + vfs.TemporarySuffix,
			func(t *testing.T, s *Store, l *Log) {
				fill(t, l, 1)
				s.tick(epoch0, false)
			}},
		{"a leader epoch's sync", vfs.OpSync, checkpoint.EpochsFile + vfs.TemporarySuffix,
			func(t *testing.T, _ *Store, l *Log) {
				if err := errors.Join(l.Lead(9), l.epochs.SaveDue()); err != nil {
					t.Error(err)
				}
			}},
		{"retention's rename", vfs.OpRename, "*.log", func(t *testing.T, _ *Store, l *Log) {
			l.Configure(settings(func(c *topicconfig.Settings) {
				c.Compact, c.RetentionBytes = true, 2500
			}), true)
			if err := l.applyRetention(epoch0); err != nil {
				t.Error(err)
			}
		}},
		{"a swap's first rename", vfs.OpRename, "*.cleaned",
			func(t *testing.T, _ *Store, l *Log) { rewriteFirst(t, l) }},
		{"a swap's last rename", vfs.OpRename, "*.swap",
			func(t *testing.T, _ *Store, l *Log) { rewriteFirst(t, l) }},
		{"a swap's commit", vfs.OpSyncDir, "*",
			func(t *testing.T, _ *Store, l *Log) { rewriteFirst(t, l) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := &stuckDisk{FS: vfs.NewMem()}
			store, log := swapLog(t, disk)
			log.Configure(settings(func(c *topicconfig.Settings) { c.Compact = true }), true)
			hung := disk.hold(test.op, test.file)
			var slow sync.WaitGroup
			slow.Go(func() { test.do(t, store, log) })
			<-hung.reached
			readEverything(t, store, log)
			close(hung.free)
			slow.Wait()
			disk.now.Store(nil)
			readEverything(t, store, log)
		})
	}
}

func readEverything(t *testing.T, store *Store, log *Log) {
	t.Helper()
	for _, offset := range []int64{log.LogStart(), 45} {
		slice, err := log.Read(offset, log.HighWatermark(), 300, true)
		if err != nil || len(batchesOf(t, slice)) == 0 {
			t.Fatalf("read at %d: %v", offset, err)
		}
		slice.Release()
	}
	if _, ok, err := log.Timestamps().First(epoch0.UnixMilli(), 50); !ok || err != nil {
		t.Errorf("no offset for a timestamp: %v", err)
	}
	if _, ok, err := log.Timestamps().Largest(); !ok || err != nil {
		t.Errorf("no largest timestamp: %v", err)
	}
	if stats := log.Stats(); stats.LogEnd < 50 || log.Fault() != nil || log.EpochAt(40) > 9 {
		t.Errorf("%+v, fault %v", stats, log.Fault())
	}
	if _, ok := log.Compaction().Sections(time.Now()); !ok {
		t.Error("the log is closed for the cleaner")
	}
	// These are the other methods that a metrics scrape calls (package collector).
	_, _ = log.OpenTransactions()
	_ = log.Compaction().Progress.TombstoneClean() +
		log.Compaction().Progress.ReportedReplicasTombstoneClean()
	if len(store.Logs()) != 1 || log.Compaction().Quarantined() {
		t.Errorf("%d logs, quarantined %t", len(store.Logs()), log.Compaction().Quarantined())
	}
}

// TestManySegmentsAreSealedConcurrently checks that several segments are sealed concurrently.
// Sealing a rolled segment takes several syncs. While one segment's syncs wait for the disk, a
// flush seals the log's other rolled segments. Otherwise closing a log with many rolled segments
// would take minutes.
func TestManySegmentsAreSealedConcurrently(t *testing.T) {
	mem := vfs.NewMem()
	disk := &stuckDisk{FS: mem}
	log := createLog(t, openStore(t, disk), settings(nil))
	const many = 20 // number of segments; a few would be sealed sequentially
	fill(t, log, 20*many)
	bases := bases(log)
	if len(bases) < many {
		t.Fatalf("%d segments, want at least %d", len(bases), many)
	}
	hung := disk.hold(vfs.OpSync, segment.Name(0, segment.LogExtension, ""))
	flushed := make(chan error)
	go func() { flushed <- log.disk.Flush() }()
	<-hung.reached
	for _, end := range bases[2:] {
		name := filepath.Join(dataDir, partition.String(), segment.Name(end, swap.SnapshotSuffix, ""))
		await.Until(t, "the other segments are sealed while segment 0 is synced", func() bool {
			_, err := mem.Stat(name)
			return err == nil
		})
	}
	if got := log.disk.SealedEnd(); got != 0 {
		t.Errorf("segments below %d may be cleaned, although segment 0 is not sealed", got)
	}
	close(hung.free)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if again.LogEnd() != log.LogEnd() {
		t.Errorf("after a crash the log ends at %d, want %d", again.LogEnd(), log.LogEnd())
	}
}
