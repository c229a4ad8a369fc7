package logstore

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

func TestFullDiskFailsAppendsUntilThereIsSpace(t *testing.T) {
	for _, test := range []struct {
		name string
		rule vfs.Rule
	}{
		{"nothing is written", vfs.Rule{Op: vfs.OpWrite, Name: "*.log", Err: syscall.ENOSPC}},
		{"the write is partial", vfs.Rule{Op: vfs.OpWrite, Name: "*.log", Err: syscall.ENOSPC,
			WriteBytes: 40}},
		{"no new file can be created", vfs.Rule{Op: vfs.OpCreate, Err: syscall.ENOSPC}},
		{"everything but truncating the file fails",
			vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC, WriteBytes: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem := vfs.NewMem()
			fault := vfs.NewFault(mem)
			store := openStore(t, fault)
			log := createLog(t, store, settings(nil))
			fill(t, log, 10) // the next append rolls
			fault.Inject(test.rule)
			failed := 0
			for range 3 {
				before := log.LogEnd()
				if _, err := log.Append(keyed(t, "lost"), epoch0); err == nil {
					t.Error("appended to a full disk")
				} else if errors.Is(err, ErrStorage) && errors.Is(err, syscall.ENOSPC) &&
					log.LogEnd() == before {
					failed++
				} else {
					t.Errorf("%v; the log end moved from %d to %d", err, before, log.LogEnd())
				}
				store.tick(epoch0, true)
			}
			if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 10)) || failed != 3 {
				t.Errorf("%d appends failed; read %v", failed, got)
			}
			fault.Clear()
			fill(t, log, 15)
			store.tick(epoch0, false)
			want := expectKeys(0, 25)
			if got := readKeys(t, log, 0); !slices.Equal(got, want) {
				t.Errorf("after space was freed: read %v", got)
			}
			log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
			if got := readKeys(t, log, 0); !slices.Equal(got, want) {
				t.Errorf("after a crash: read %v", got)
			}
		})
	}
}

func TestLogStopsWhenTheStateOfItsFileIsUnknown(t *testing.T) {
	for _, test := range []struct {
		name  string
		rules []vfs.Rule
	}{
		{"a failed write that cannot be reverted", []vfs.Rule{
			{Op: vfs.OpWrite, Name: "*.log", WriteBytes: 10}, {Op: vfs.OpTruncate, Name: "*.log"},
		}},
		{"a failed sync", []vfs.Rule{{Op: vfs.OpSync, Name: "*.log"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t,
				func(t *testing.T) { testStops(t, test.rules) })
		})
	}
}

func testStops(t *testing.T, rules []vfs.Rule) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	reported := map[PartitionID]error{}
	store, err := Open(Options{FS: fault, Dir: dataDir, Logger: quiet(), FlushInterval: time.Second,
		Failed: func(id PartitionID, err error) {
			reported[id] = err
		}})
	if err != nil {
		t.Fatal(err)
	}
	log := createLog(t, store, settings(nil))
	fill(t, log, 5)
	time.Sleep(time.Second + 1)
	synctest.Wait()
	fill(t, log, 2)
	for _, rule := range rules {
		fault.Inject(rule)
	}
	_, _ = log.Append(keyed(t, "k7"), epoch0) // fails only in the test case of the failed write
	time.Sleep(time.Second)
	synctest.Wait()
	fault.Clear()
	if _, err := log.Append(keyed(t, "x"), epoch0); !errors.Is(err, ErrStorage) ||
		!errors.Is(err, syscall.EIO) {
		t.Errorf("an append to a stopped log: %v", err)
	}
	if err := log.Lead(5); !errors.Is(err, ErrStorage) {
		t.Errorf("Lead on a stopped log: %v", err)
	}
	if len(reported) != 1 || !errors.Is(reported[partition], ErrStorage) {
		t.Errorf("reported %v", reported)
	}
	if got := readKeys(t, log, 0); !slices.Equal(got[:7], expectKeys(0, 7)) {
		t.Errorf("read %v", got)
	}
	if err := store.Close(); !errors.Is(err, ErrStorage) {
		t.Errorf("close: %v", err)
	}
	// No clean-shutdown marker was written, so the next start checks the log.
	if _, err := mem.Stat(dataDir + "/" + datadir.CleanShutdownFile); err == nil {
		t.Error("the clean-shutdown marker was written")
	}
	log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if got := readKeys(t, log, 0); len(got) < 5 || !slices.Equal(got, expectKeys(0, log.LogEnd())) {
		t.Errorf("after a restart: read %v", got)
	}
}

// TestFailureAtEveryStepOfSwap makes a swap fail at any step. The log then contains either the old
// or the new records, reads continue, and a restart repairs the directory.
func TestFailureAtEveryStepOfSwap(t *testing.T) {
	for step := 0; ; step++ {
		mem := vfs.NewMem()
		fault := vfs.NewFault(mem)
		store, log := swapLog(t, fault)
		fault.Inject(vfs.Rule{Skip: step, Times: 1})
		err := swapFiles(t, log)
		over := !dead(fault) && err == nil && step > 60
		fault.Clear()
		if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 50)) &&
			!slices.Equal(got, swapped()) {
			t.Fatalf("step %d: read %v", step, got)
		}
		if err != nil && log.fault.StoppedLocked() == nil {
			if err := swapFiles(t, log); err != nil {
				t.Fatalf("step %d: a second swap after a failed one: %v", step, err)
			}
		}
		if err := store.Close(); err != nil && log.fault.StoppedLocked() == nil {
			t.Fatalf("step %d: %v", step, err)
		}
		checkSwapped(t, mem.CrashClone(), "restart")
		if over {
			return
		}
	}
}

// TestLogOpensOnFullDisk opens a log on a full disk, after a crash or with a missing index file.
// The log can be read, and retention deletes segments. The next start does not rely on files that
// could not be written.
func TestLogOpensOnFullDisk(t *testing.T) {
	for _, clean := range []bool{false, true} {
		mem := stopped(t, clean)
		if !clean {
			if err := mem.Remove(dataDir + "/" +
				checkpoint.RecoveryPointFile); err != nil { // so the start scans everything
				t.Fatal(err)
			}
		}
		damage(t, mem, "00000000000000000020.index", gone)
		fault := vfs.NewFault(mem)
		fault.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
		store := openStore(t, fault)
		log := store.Log(partition)
		if log == nil {
			t.Fatalf("clean %t: %v", clean, store.Offline())
		}
		if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 60)) {
			t.Fatalf("clean %t: read %v", clean, got)
		}
		log.config.Store(
			newConfig(settings(func(c *topicconfig.Settings) { c.RetentionBytes = 4500 }), true),
		)
		store.tick(epoch0, true)
		if point, err := mem.ReadFile(dataDir + "/" + checkpoint.RecoveryPointFile); err == nil &&
			log.checkpointState().RecoveryPoint > 20 {
			t.Errorf("clean %t: the recovery point is %d, on disk %s", clean,
				log.checkpointState().RecoveryPoint, point)
		}
		if log.LogStart() != 10 {
			t.Errorf("clean %t: log start %d after retention on a full disk, want 10", clean,
				log.LogStart())
		}
		crashed := createLog(t, openStore(t, mem.CrashClonePartly(1)), settings(nil))
		if got := readKeys(t, crashed, 10); !slices.Equal(got, expectKeys(10, 60)) {
			t.Errorf("clean %t: after another crash: read %v", clean, got)
		}
		fault.Clear()
		store.tick(epoch0, true)
		if point := log.checkpointState().RecoveryPoint; point != 60 {
			t.Errorf("clean %t: recovery point %d after space was freed, want 60", clean, point)
		}
		for seed := range seed.Sequence(t, 20) {
			crashed := createLog(t, openStore(t, mem.CrashClonePartly(seed)), settings(nil))
			if got := readKeys(t, crashed, 10); !slices.Equal(got, expectKeys(10, 60)) {
				t.Errorf("clean %t, seed %d: after another crash: read %v", clean, seed, got)
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
