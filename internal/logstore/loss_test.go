package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/recovery"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// lossModel is a model of the disk content of one log: the records by offset, which of them are
// synced, and what the checkpoints list.
type lossModel struct {
	bases               []int64
	start, synced, end  int64
	point, hw, hwListed int64
}

// TestLossIsFoundExactlyWhereSyncedRecordsAreMissing plays a log's life in a model: appends, rolls,
// flushes, checkpoints and retention. Then the log loses either unsynced data, as in a crash, or
// synced data. Only the latter is reported as a loss.
func TestLossIsFoundExactlyWhereSyncedRecordsAreMissing(t *testing.T) {
	for n := range seed.Sequence(t, 400) {
		r := rand.New(rand.NewPCG(n, 1))
		m := lossModel{bases: []int64{0}}
		for range 40 {
			switch r.IntN(6) {
			case 0, 1:
				m.end += 1 + r.Int64N(9)
			case 2:
				if m.end > m.bases[len(m.bases)-1] {
					m.bases = append(m.bases, m.end)
				}
			case 3:
				m.synced = m.end
			case 4:
				m.hw = m.start + r.Int64N(m.end-m.start+1)
				m.point, m.hwListed = m.synced, m.hw
			case 5:
				if len(m.bases) > 2 && m.bases[1] <= m.hw {
					m.bases, m.start = m.bases[1:], m.bases[1]
				}
			}
		}
		m.crashLosesNothing(t, r)
		m.cleanStopThenDamage(t, r)
	}
}

func (m *lossModel) crashLosesNothing(t *testing.T, r *rand.Rand) {
	t.Helper()
	end := m.synced + r.Int64N(m.end-m.synced+1)
	base := slices.DeleteFunc(slices.Clone(m.bases), func(b int64) bool { return b > end })
	known := recovery.Evidence{RecoveryPoint: m.point, HighWatermark: m.hwListed}
	if cause := recovery.LossOf(known, base, ends(base, end), end); cause != "" {
		t.Errorf("%+v: after a crash the log ends at %d: %s", m, end, cause)
	}
	if m.point > m.start {
		end = m.start + r.Int64N(m.point-m.start)
		if recovery.LossOf(known, base[:1], []int64{end}, end) == "" {
			t.Errorf("%+v: after a crash the log ends at %d: no loss found", m, end)
		}
	}
}

func (m *lossModel) cleanStopThenDamage(t *testing.T, r *rand.Rand) {
	t.Helper()
	known := recovery.Evidence{Clean: true, RecoveryPoint: m.end, HighWatermark: m.hw}
	next := ends(m.bases, m.end)
	for i, base := range m.bases {
		known.Segments = append(known.Segments, checkpoint.Range{Base: base, Next: next[i]})
	}
	if cause := recovery.LossOf(known, m.bases, next, m.end); cause != "" {
		t.Errorf("%+v: after a clean shutdown: %s", m, cause)
	}
	index := r.IntN(len(m.bases))
	if shorter := slices.Clone(next); shorter[index] > m.bases[index] {
		shorter[index]--
		if recovery.LossOf(known, m.bases, shorter, shorter[len(shorter)-1]) == "" {
			t.Errorf("%+v: segment %d ends at %d: no loss found", m, m.bases[index], shorter[index])
		}
	}
	base := slices.Delete(slices.Clone(m.bases), index, index+1)
	next = slices.Delete(next, index, index+1)
	if len(base) > 0 && recovery.LossOf(known, base, next, next[len(next)-1]) == "" {
		t.Errorf("%+v: without segment %d: no loss found", m, m.bases[index])
	}
	known.Missing, known.Segments = true, nil
	if got := recovery.LossOf(known, []int64{m.start}, []int64{m.start}, m.start) != ""; got !=
		(m.end > m.start) {
		t.Errorf("%+v: the directory is missing: loss %t", m, got)
	}
}

// ends returns the end offsets of contiguous segments.
func ends(bases []int64, end int64) []int64 {
	return append(slices.Clone(bases[min(1, len(bases)):]), end)
}

// stoppedDisk returns the disk of a cleanly closed store with one log, which has four segments of
// ten records.
func stoppedDisk(t *testing.T) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	for range 3 {
		fill(t, log, 10)
		rollNow(t, log)
	}
	fill(t, log, 10)
	closeStore(t, store)
	return fsys
}

func closeStore(t *testing.T, store *Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// reopened opens the store and creates the log again, as a broker does at its start.
func reopened(t *testing.T, fsys vfs.FS) *Log {
	t.Helper()
	return createLog(t, openStore(t, fsys), settings(nil))
}

func segmentName(base int64) string {
	return filepath.Join(dataDir, partition.String(), segment.Name(base, segment.LogExtension, ""))
}

// older replaces the log's directory with an older copy, which contains only the first segments.
func older(t *testing.T, fsys *vfs.Mem) {
	for _, base := range []int64{20, 30} {
		must(t, fsys.Remove(segmentName(base)))
	}
}

// without returns a function that removes the segment with the given base offset.
func without(base int64) func(t *testing.T, fsys *vfs.Mem) {
	return func(t *testing.T, fsys *vfs.Mem) { must(t, fsys.Remove(segmentName(base))) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shorten removes the last bytes of a file.
func shorten(t *testing.T, fsys vfs.FS, name string, bytes int64) {
	t.Helper()
	file, err := fsys.OpenReadWrite(name)
	must(t, err)
	size, err := file.Size()
	must(t, err)
	must(t, file.Truncate(size-bytes))
	must(t, file.Close())
}

// TestDamageIsFoundAtTheNextStart checks that each kind of damage is found, that the loss is still
// known after another crash, and that the log keeps the remaining records.
func TestDamageIsFoundAtTheNextStart(t *testing.T) {
	marker := filepath.Join(dataDir, datadir.CleanShutdownFile)
	for name, c := range map[string]struct {
		damage func(t *testing.T, fsys *vfs.Mem)
		want   string
		left   int
	}{
		"directory missing": {func(t *testing.T, fsys *vfs.Mem) {
			must(t, fsys.RemoveAll(filepath.Join(dataDir, partition.String())))
		}, "the directory is missing; its log ended at 40 or later", 0},
		"directory missing after a crash": {func(t *testing.T, fsys *vfs.Mem) {
			must(t, fsys.Remove(marker))
			must(t, fsys.RemoveAll(filepath.Join(dataDir, partition.String())))
		}, "the directory is missing; its log ended at 40 or later", 0},
		"directory empty": {func(t *testing.T, fsys *vfs.Mem) {
			must(t, fsys.RemoveAll(filepath.Join(dataDir, partition.String())))
			must(t, fsys.MkdirAll(filepath.Join(dataDir, partition.String())))
		}, "the log ends at 0, but was synced up to 40", 0},
		"older copy": {older, "the log ends at 20, but was synced up to 40", 20},
		"older copy after a crash": {func(t *testing.T, fsys *vfs.Mem) {
			older(t, fsys)
			must(t, fsys.Remove(marker))
		}, "the log ends at 20, but was synced up to 40", 20},
		"first segment missing": {without(0), "segment 0 is missing", 30},
		"segment missing":       {without(10), "segment 10 is missing", 30},
		"last segment missing":  {without(30), "the log ends at 30, but was synced up to 40", 30},
		"last segment truncated": {func(t *testing.T, fsys *vfs.Mem) {
			shorten(t, fsys, segmentName(30), 5)
		}, "the log ends at 39, but was synced up to 40", 39},
		"last segment truncated after a crash": {func(t *testing.T, fsys *vfs.Mem) {
			must(t, fsys.Remove(marker))
			shorten(t, fsys, segmentName(30), 5)
		}, "the log ends at 39, but was synced up to 40", 39},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := stoppedDisk(t)
			c.damage(t, fsys)
			log := reopened(t, fsys)
			if log.Notes().Loss() != c.want {
				t.Errorf("loss %q, want %q", log.Notes().Loss(), c.want)
			}
			if got := len(readKeys(t, log, log.LogStart())); got != c.left {
				t.Errorf("%d records are left, want %d", got, c.left)
			}
			crashed := fsys.CrashClone()
			again := reopened(t, crashed)
			if again.Notes().Loss() != c.want {
				t.Errorf("after a crash: loss %q, want %q", again.Notes().Loss(), c.want)
			}
			must(t, again.StartAt(0))
			must(t, again.Notes().SetLoss(""))
			if loss := reopened(t, crashed.CrashClone()).Notes().Loss(); loss != "" {
				t.Errorf("after the loss was removed: %q", loss)
			}
		})
	}
}

// TestEachMissingSegmentIsFound checks that any missing segment is found, even a segment with a
// transaction index, which has no summary.
func TestEachMissingSegmentIsFound(t *testing.T) {
	fsys := vfs.NewMem()
	store, log, _ := txnLog(t, fsys)
	rollNow(t, log)
	var bases []int64
	indexed := 0
	for _, h := range log.list.Load().Handles {
		bases = append(bases, h.Base())
		if h.AbortedCount() > 0 {
			indexed++
		}
	}
	closeStore(t, store)
	if indexed == 0 || indexed == len(bases) {
		t.Fatalf("%d of %d segments have a transaction index", indexed, len(bases))
	}
	if loss := reopened(t, fsys.KillClone()).Notes().Loss(); loss != "" {
		t.Errorf("without damage: %q", loss)
	}
	for _, base := range bases[:len(bases)-1] {
		damaged := fsys.KillClone()
		must(t, damaged.Remove(segmentName(base)))
		if got, want := reopened(t, damaged).Notes().Loss(), fmt.Sprintf("segment %d is missing",
			base); got != want {
			t.Errorf("loss %q, want %q", got, want)
		}
	}
}

// TestNoLoss checks that what a crash, a truncation, retention and DeleteRecords remove is not
// reported as a loss, and neither is a log that no longer belongs to this broker.
func TestNoLoss(t *testing.T) {
	unflushed := func(t *testing.T, store *Store) {
		log := createLog(t, store, settings(nil))
		fill(t, log, 5)
		store.tick(epoch0, false)
		fill(t, log, 5)
	}
	for name, play := range map[string]func(t *testing.T, fsys *vfs.Mem) vfs.FS{
		"power cut": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			unflushed(t, openStore(t, fsys))
			return fsys.CrashClone()
		},
		"kill": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			unflushed(t, openStore(t, fsys))
			return fsys.KillClone()
		},
		"truncation": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			unflushed(t, store)
			must(t, store.Log(partition).TruncateTo(3))
			return fsys.CrashClone()
		},
		"start again at a lower offset": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			unflushed(t, store)
			store.tick(epoch0, false)
			must(t, store.Log(partition).StartAt(0))
			return fsys.CrashClone()
		},
		"all records deleted": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			unflushed(t, store)
			rollNow(t, store.Log(partition))
			must(t, store.Log(partition).DeleteBefore(10))
			closeStore(t, store)
			return fsys
		},
		"retention before its checkpoint": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			unflushed(t, store)
			rollNow(t, store.Log(partition))
			store.tick(epoch0, false)
			must(t, store.Log(partition).applyRetention(epoch0.Add(30*24*time.Hour)))
			return fsys.CrashClone()
		},
		"empty log whose directory is missing": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			createLog(t, store, settings(nil))
			closeStore(t, store)
			must(t, fsys.RemoveAll(filepath.Join(dataDir, partition.String())))
			return fsys
		},
		"deleted and created again": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			unflushed(t, store)
			store.tick(epoch0, false)
			must(t, store.Release(partition, false))
			return fsys.CrashClone()
		},
		"released, before the checkpoints were written": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			faults := vfs.NewFault(fsys)
			store := openStore(t, faults)
			unflushed(t, store)
			store.tick(epoch0, false)
			faults.Inject(vfs.Rule{Op: vfs.OpRename, Name: checkpoint.RecoveryPointFile + "*",
				Err: vfs.ErrLocked})
			_ = store.Release(partition, false)
			return fsys.CrashClone()
		},
		"retained, and created again": func(t *testing.T, fsys *vfs.Mem) vfs.FS {
			store := openStore(t, fsys)
			unflushed(t, store)
			must(t, store.Release(partition, true))
			return fsys.CrashClone()
		},
		"segment-checkpoint of another program": func(t *testing.T, _ *vfs.Mem) vfs.FS {
			fsys := stoppedDisk(t)
			must(t, fsys.Remove(segmentName(0)))
			must(t, vfs.WriteFileAtomic(fsys, filepath.Join(dataDir, datadir.CleanShutdownFile),
				[]byte(`{"version":0,"brokerEpoch":77}`)))
			return fsys
		},
		"no checkpoints at all": func(t *testing.T, _ *vfs.Mem) vfs.FS {
			fsys := stoppedDisk(t)
			older(t, fsys)
			for _, file := range []string{checkpoint.RecoveryPointFile, checkpoint.HorizonFile,
				checkpoint.LogStartFile, checkpoint.HighWatermarkFile, checkpoint.FirstDirtyFile} {
				_ = fsys.Remove(filepath.Join(dataDir, file)) // some files were never written
			}
			must(t, fsys.Remove(filepath.Join(dataDir, datadir.CleanShutdownFile)))
			return fsys
		},
	} {
		t.Run(name, func(t *testing.T) {
			if loss := reopened(t, play(t, vfs.NewMem())).Notes().Loss(); loss != "" {
				t.Errorf("loss: %s", loss)
			}
		})
	}
}

// TestMissingLogStaysListed checks that a missing log's checkpoints remain until the log is created
// again. If the directory returns, the store can then still determine whether it is complete.
func TestMissingLogStaysListed(t *testing.T) {
	fsys := stoppedDisk(t)
	must(t, fsys.Rename(filepath.Join(dataDir, partition.String()), "aside"))
	closeStore(t, openStore(t, fsys))
	must(t, fsys.Rename("aside", filepath.Join(dataDir, partition.String())))
	if loss := reopened(t, fsys).Notes().Loss(); loss != "" {
		t.Errorf("the directory has returned: loss %q", loss)
	}
}

// TestOfflineCleaningIsNoLoss checks that segments which an offline pass removes are not reported
// as a loss, although the summaries of the last shutdown contain them. A log that has lost records
// is refused, and its checkpoints remain.
func TestOfflineCleaningIsNoLoss(t *testing.T) {
	fsys, dir := stoppedDisk(t), filepath.Join(dataDir, partition.String())
	offline, err := OpenOffline(Options{FS: fsys, Logger: quiet()}, dir, epoch0)
	must(t, err)
	must(t, offline.Close())
	must(t, fsys.Remove(segmentName(10))) // like a pass that leaves no batch of a segment
	if loss := reopened(t, fsys).Notes().Loss(); loss != "" {
		t.Errorf("after cleaning: loss %q", loss)
	}
	fsys = stoppedDisk(t)
	older(t, fsys)
	if _, err := OpenOffline(Options{FS: fsys, Logger: quiet()}, dir, epoch0); !errors.Is(err,
		ErrStorage) {
		t.Errorf("open a log that has lost records: %v", err)
	}
	if log := reopened(t, fsys); log.Notes().Loss() == "" {
		t.Error("after cleaning was refused: no loss")
	}
}

// TestMissingLogOfADeletedTopicIsForgotten checks that a later topic of the same name is not
// reported as a loss.
func TestMissingLogOfADeletedTopicIsForgotten(t *testing.T) {
	fsys := stoppedDisk(t)
	must(t, fsys.RemoveAll(filepath.Join(dataDir, partition.String())))
	store := openStore(t, fsys)
	store.ForgetMissing(func(PartitionID) bool { return false })
	if loss := createLog(t, store, settings(nil)).Notes().Loss(); loss != "" {
		t.Errorf("loss: %s", loss)
	}
}

// TestReleasedNamesAreRecognized checks that the names of released directories are recognized,
// including names that contain a shortened partition name.
func TestReleasedNamesAreRecognized(t *testing.T) {
	for _, topic := range []string{"a", "a.b", strings.Repeat("x", 249)} {
		id, other := PartitionID{Topic: topic, Index: 7}, PartitionID{Topic: topic + "c", Index: 7}
		name := datadir.ReleasedName(id, datadir.NewID(), datadir.DeleteSuffix)
		if !datadir.ReleaseOf(id)(name) || topic == "a" && datadir.ReleaseOf(other)(name) ||
			datadir.ReleaseOf(id)(fmt.Sprintf("%s-7", topic)) {
			t.Errorf("%s: wrong answer for %s", id, name)
		}
	}
}
