package logstore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

func TestRestartAfterCleanShutdown(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	fill(t, createLog(t, store, settings(nil)), 30)
	id := store.DirectoryID()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 30)) {
		t.Errorf("read %v", got)
	}
	if store.DirectoryID() != id {
		t.Errorf("the directory id changed from %v to %v", id, store.DirectoryID())
	}
	if log.HighWatermark() != 30 {
		t.Errorf("high watermark is %d", log.HighWatermark())
	}
	fill(t, log, 5)
	if got := readKeys(t, log, 28); !slices.Equal(got, expectKeys(28, 35)) {
		t.Errorf("read %v", got)
	}
}

func TestCrashKeepsSyncedRecords(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	fill(t, log, 30)
	store.tick(epoch0, false)
	fill(t, log, 20)
	for seed := range seed.Sequence(t, 200) {
		crashed := fsys.CrashClonePartly(seed)
		again := openStore(t, crashed)
		log := createLog(t, again, settings(nil))
		if log.LogEnd() < 30 || log.LogEnd() > 50 {
			t.Fatalf("seed %d: log end is %d", seed, log.LogEnd())
		}
		if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, log.LogEnd())) {
			t.Fatalf("seed %d: read %v", seed, got)
		}
	}
}

// stopped returns the disk of a log that was closed cleanly or crashed. The log is swapLog's log
// with ten more batches by producer 7 in a second leader epoch.
func stopped(t *testing.T, clean bool) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	store, log := swapLog(t, mem)
	if err := log.Lead(4); err != nil {
		t.Fatal(err)
	}
	for i := range int32(10) {
		appendBatch(t, log, storetest.Batch{Producer: 7, Sequence: i,
			Keys: []string{fmt.Sprintf("k%d", log.LogEnd())}}.Bytes(t))
	}
	if err := log.epochs.SaveDue(); err != nil {
		t.Fatal(err)
	}
	store.tick(epoch0, false)
	if clean {
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return mem.CrashClone()
}

// damage replaces the content of a file of the partition; nil removes the file.
func damage(t *testing.T, fsys vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	name = filepath.Join(dataDir, partition.String(), name)
	content, err := fsys.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if content = change(content); content == nil {
		err = fsys.Remove(name)
	} else {
		err = vfs.WriteFileAtomic(fsys, name, content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flip(index int) func([]byte) []byte {
	return func(content []byte) []byte {
		content[(index+len(content))%len(content)] ^= 1
		return content
	}
}

func gone([]byte) []byte { return nil }

func TestRecoveryRepairsDamage(t *testing.T) {
	const active = "00000000000000000050.log"
	for _, test := range []struct {
		name  string
		clean bool
		file  string
		how   func([]byte) []byte
		end   int64 // expected log end; 60 if no record is lost
	}{
		{"a torn batch at the end is removed", false, active,
			func(b []byte) []byte { return b[:len(b)-7] }, 59},
		{"zeros at the end are removed", false, active,
			func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 60},
		{"a damaged batch ends the log", false, active, flip(30), 50},
		{"a damaged last batch is removed", false, active, flip(-1), 59},
		{"an index is rebuilt", false, "00000000000000000020.index", gone, 60},
		{"a time index is rebuilt", true, "00000000000000000020.timeindex", gone, 60},
		{"a damaged snapshot is skipped", true, "00000000000000000060.snapshot", flip(-1), 60},
		{"a missing snapshot is skipped", true, "00000000000000000060.snapshot", gone, 60},
		{"missing leader epochs are rebuilt", true, checkpoint.EpochsFile, gone, 60},
		{"damaged leader epochs are rebuilt", false, checkpoint.EpochsFile, flip(2), 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem := stopped(t, test.clean)
			damage(t, mem, test.file, test.how)
			log := createLog(t, openStore(t, mem), settings(nil))
			if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, test.end)) {
				t.Fatalf("read %v", got)
			}
			if epoch := log.EpochAt(55); test.end > 55 && epoch != 4 {
				t.Errorf("epoch at 55 is %d", epoch)
			}
			// The producer can append at the log end, and the log recognizes a repeated batch of
			// the producer.
			next := storetest.Batch{Producer: 7, Sequence: int32(test.end - 50),
				Keys: []string{"next"}}
			if appended := appendBatch(t, log, next.Bytes(t)); appended.BaseOffset != test.end ||
				appended.Duplicate {
				t.Errorf("%+v", appended)
			}
			if appended := appendBatch(t, log, next.Bytes(t)); !appended.Duplicate {
				t.Errorf("repeated: %+v", appended)
			}
			gap := storetest.Batch{Producer: 7, Sequence: int32(test.end - 40),
				Keys: []string{"gap"}}
			if _, err := log.Append(gap.Bytes(t), epoch0); test.end > 50 &&
				!errors.Is(err, ErrOutOfOrderSequence) {
				t.Errorf("a gap: %v", err)
			}
		})
	}
}

// TestSegmentsAfterCorruptBatchAreDeleted checks that the start deletes the segments after a
// corrupt batch, because the log now ends at this batch and assigns the segments' offsets again.
func TestSegmentsAfterCorruptBatchAreDeleted(t *testing.T) {
	mem := stopped(t, false)
	if err := mem.Remove(filepath.Join(dataDir, checkpoint.RecoveryPointFile)); err != nil {
		t.Fatal(err)
	}
	damage(t, mem, "00000000000000000020.log", flip(-1))
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 29)) {
		t.Errorf("read %v", got)
	}
	if got := bases(log); !slices.Equal(got, []int64{0, 10, 20}) {
		t.Errorf("segments %v", got)
	}
	fill(t, log, 3)
	store.tick(epoch0, false)
	log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 32)) {
		t.Errorf("after another crash: read %v", got)
	}
}

// TestEmptyActiveSegmentKeepsLogEnd checks a log from which retention has deleted all records. Then
// only the name of the empty active segment contains the log end, and a start must keep it
// (KAFKA-17076).
func TestEmptyActiveSegmentKeepsLogEnd(t *testing.T) {
	mem := vfs.NewMem()
	store, log := swapLog(t, mem)
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionTime = 0 }), true)
	store.tick(epoch0.Add(time.Hour), true)
	store.tick(epoch0.Add(time.Hour), true)
	if log.LogStart() != 50 || log.Stats().SizeBytes != 0 {
		t.Fatalf("%+v", log.Stats())
	}
	for _, crashed := range []bool{true, false} {
		again := mem.CrashClone()
		if !crashed {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			again = mem
		}
		log := createLog(t, openStore(t, again), settings(nil))
		if log.LogEnd() != 50 || log.LogStart() != 50 || log.HighWatermark() != 50 {
			t.Errorf("crashed %t: %+v", crashed, log.Stats())
		}
	}
}

func TestLogThatEndsBelowItsStartStartsAgain(t *testing.T) {
	mem := stopped(t, false)
	content := checkpoint.EncodeOffsets(map[PartitionID]int64{partition: 100})
	if err := vfs.WriteFileAtomic(mem, filepath.Join(dataDir, checkpoint.LogStartFile),
		content); err != nil {
		t.Fatal(err)
	}
	log := createLog(t, openStore(t, mem), settings(nil))
	if log.LogStart() != 100 || log.LogEnd() != 100 || log.HighWatermark() != 100 ||
		!slices.Equal(bases(log), []int64{100}) {
		t.Errorf("%+v, segments %v", log.Stats(), bases(log))
	}
}

// TestDirectoryOfKafkaIsOpened checks that a directory that Kafka wrote is opened, although it
// lacks the files that only Heartwood writes and may have gaps between segments.
func TestDirectoryOfKafkaIsOpened(t *testing.T) {
	mem := stopped(t, false)
	for _, name := range []string{datadir.PartitionFile, datadir.PolicyFile, checkpoint.EpochsFile} {
		damage(t, mem, name, gone)
	}
	for _, name := range []string{checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile} {
		if err := mem.Remove(filepath.Join(dataDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := segment.RemoveFiles(mem, filepath.Join(dataDir, partition.String()), 20,
		""); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, mem)
	if log := store.Log(partition); log.TopicID() != (TopicID{}) || !log.Retain() {
		t.Errorf("topic %v, retain %t", log.TopicID(), log.Retain())
	}
	log, err := store.Create(partition, topicTwo, settings(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := readKeys(t, log, 0); !slices.Equal(got,
		append(expectKeys(0, 20), expectKeys(30, 60)...)) {
		t.Errorf("read %v", got)
	}
	log = openStore(t, mem.CrashClone()).Log(partition)
	if log.TopicID() != topicTwo || log.Retain() {
		t.Errorf("after a crash: topic %v, retain %t", log.TopicID(), log.Retain())
	}
}

// TestRemovedEpochStaysRemovedAfterDeletion checks deleted records below the log start that are
// still in their segment, and whose leader epoch a truncation has removed. The next start must not
// restore the epoch from these records. (Seed 13000475 of TestCrashes found this.)
func TestRemovedEpochStaysRemovedAfterDeletion(t *testing.T) {
	mem := vfs.NewMem()
	log := createLog(t, openStore(t, mem), settings(nil))
	if err := log.Lead(3); err != nil {
		t.Fatal(err)
	}
	fill(t, log, 5)
	if err := log.DeleteBefore(5); err != nil {
		t.Fatal(err)
	}
	mem = mem.CrashClone()
	log = createLog(t, openStore(t, mem), settings(nil)) // the epoch now starts at 5
	if err := log.TruncateTo(5); err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	for name, l := range map[string]*Log{"running": log, "after a crash": again} {
		if l.LogStart() != 5 || l.LogEnd() != 5 || l.LeaderEpoch() != -1 {
			t.Errorf("%s: [%d, %d), leader epoch %d", name, l.LogStart(), l.LogEnd(),
				l.LeaderEpoch())
		}
	}
}

// TestProducersSurviveTheLastSegment checks a log whose segments below the log start are deleted,
// and whose segment at the log start was never synced. Then only the producer snapshot at the log
// start contains the producers' state.
func TestProducersSurviveTheLastSegment(t *testing.T) {
	for _, test := range []struct {
		name string
		end  int64 // end offset of the remaining segments
	}{{"no segment is left", 0}, {"segments below the log start are left", 20}} {
		t.Run(test.name, func(t *testing.T) {
			mem := stopped(t, true)
			if err := mem.Remove(filepath.Join(dataDir, datadir.CleanShutdownFile)); err != nil {
				t.Fatal(err)
			}
			for _, base := range []int64{0, 10, 20, 30, 40, 50} {
				if base < test.end {
					continue
				}
				if err := segment.RemoveFiles(mem, filepath.Join(dataDir, partition.String()), base,
					""); err != nil {
					t.Fatal(err)
				}
			}
			again := storetest.Batch{Producer: 7, Sequence: 9, Keys: []string{"k59"}}
			last := record.Batch(again.Bytes(t))
			last.SetBaseOffset(59)
			var known producer.State
			if _, err := known.Update(last, time.Now()); err != nil {
				t.Fatal(err)
			}
			content := checkpoint.EncodeOffsets(map[PartitionID]int64{partition: 60})
			damage(t, mem, "00000000000000000060.snapshot",
				func([]byte) []byte { return known.Encode(60) })
			if err := vfs.WriteFileAtomic(mem, filepath.Join(dataDir, checkpoint.LogStartFile),
				content); err != nil {
				t.Fatal(err)
			}
			log := createLog(t, openStore(t, mem), settings(nil))
			if log.LogStart() != 60 || log.LogEnd() != 60 {
				t.Fatalf("%+v", log.Stats())
			}
			if appended := appendBatch(t, log, again.Bytes(t)); !appended.Duplicate ||
				appended.BaseOffset != 59 {
				t.Errorf("the producer's last batch repeated: %+v", appended)
			}
			gap := storetest.Batch{Producer: 7, Sequence: 20, Keys: []string{"gap"}}
			if _, err := log.Append(gap.Bytes(t), epoch0); !errors.Is(err, ErrOutOfOrderSequence) {
				t.Errorf("a gap: %v", err)
			}
		})
	}
}

func TestFailureDuringRestartLeavesNoFileOpen(t *testing.T) {
	mem := stopped(t, false)
	content := checkpoint.EncodeOffsets(map[PartitionID]int64{partition: 100})
	if err := vfs.WriteFileAtomic(mem, filepath.Join(dataDir, checkpoint.LogStartFile),
		content); err != nil {
		t.Fatal(err)
	}
	fault := vfs.NewFault(mem)
	fault.Inject(vfs.Rule{Op: vfs.OpRemove, Name: "*.log"})
	files := &openFiles{FS: fault}
	store := openStore(t, files)
	if err := store.Offline()[partition]; !errors.Is(err, ErrStorage) {
		t.Errorf("offline: %v", err)
	}
	if n := files.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

// TestLossOfSyncedDataIsLogged checks that the store logs the loss of synced data, which it cannot
// restore.
func TestLossOfSyncedDataIsLogged(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := stopped(t, clean)
		damage(t, mem, "00000000000000000050.log", func(b []byte) []byte { return b[:0] })
		damage(t, mem, "00000000000000000050.index", gone)
		var out strings.Builder
		store, err := Open(Options{FS: mem, Dir: dataDir,
			Logger: slog.New(slog.NewTextHandler(&out, nil)), FlushInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if log := store.Log(partition); log.LogEnd() != 50 ||
			!strings.Contains(out.String(), "level=ERROR msg=\"log has lost records") {
			t.Errorf("clean %t: the log ends at %d, and logs\n%s", clean, log.LogEnd(),
				out.String())
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
