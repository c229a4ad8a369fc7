package cleaner

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// offlineDir is the partition's directory, which the tests clean offline.
var offlineDir = filepath.Join(dataDir, partition.String())

// closedLog returns a disk with a log that a broker has closed, and each key's latest offset. The
// log has n records with the given number of keys.
func closedLog(t *testing.T, n, keys int) (*vfs.Mem, map[string]int64) {
	t.Helper()
	disk := vfs.NewMem()
	s := openStore(t, disk)
	log := createLog(t, s, compacted(nil))
	all, latest := updatesOf(n, keys)
	for _, key := range all {
		appendBatch(t, log, keyed(t, key))
	}
	log.AdvanceHighWatermark(log.LogEnd())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, latest
}

// cleanOffline opens the log with the current time and calls CleanOffline.
func cleanOffline(t *testing.T, fsys vfs.FS, by OfflineOptions) (OfflineResult, error) {
	t.Helper()
	return cleanOfflineAt(t, fsys, by, time.Time{})
}

// cleanOfflineAt opens the log with the given time and calls CleanOffline.
func cleanOfflineAt(t *testing.T, fsys vfs.FS, by OfflineOptions, now time.Time) (OfflineResult,
	error) {
	t.Helper()
	o, err := logstore.OpenOffline(logstore.Options{FS: fsys, Logger: quiet()}, offlineDir, now)
	if err != nil {
		return OfflineResult{}, err
	}
	cleaned, err := CleanOffline(t.Context(), o, by)
	return cleaned, errors.Join(err, o.Close())
}

// latestIn opens a store on the disk and reads the log. It returns each key's last offset, and the
// number of records.
func latestIn(t *testing.T, fsys vfs.FS) (latest map[string]int64, records int) {
	t.Helper()
	s := openStore(t, fsys)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	log := s.Log(partition)
	if log == nil {
		t.Fatal(s.Offline())
	}
	latest = map[string]int64{}
	for _, text := range readKeys(t, log, log.LogStart()) {
		var offset int64
		head, key, _ := strings.Cut(text, "=")
		if _, err := fmt.Sscan(head, &offset); err != nil {
			t.Fatal(err)
		}
		latest[key] = offset
		records++
	}
	return latest, records
}

func TestOfflineIsIdempotent(t *testing.T) {
	disk, latest := closedLog(t, 400, 20)
	cleaned, err := cleanOffline(t, disk, OfflineOptions{TombstoneRetention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if cleaned.Passes != 1 || cleaned.RecordsRemoved == 0 || cleaned.ReclaimedBytes <= 0 ||
		cleaned.SegmentsRewritten == 0 {
		t.Errorf("cleaned %+v", cleaned)
	}
	if got, records := latestIn(t, disk); !maps.Equal(got, latest) ||
		records >= 400-int(cleaned.RecordsRemoved)+1 {
		t.Errorf("%d records, latest %v, want %v", records, got, latest)
	}
	again, err := cleanOffline(t, disk, OfflineOptions{TombstoneRetention: time.Hour})
	if err != nil || again.RecordsRemoved != 0 || again.SegmentsRewritten != 0 ||
		again.LogWrittenBytes != 0 {
		t.Errorf("second run: %+v, %v", again, err)
	}
}

func TestOfflineDryRunChangesNoRecord(t *testing.T) {
	disk, latest := closedLog(t, 400, 20)
	dry, err := cleanOffline(t, disk, OfflineOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, records := latestIn(t, disk); records != 400 {
		t.Errorf("a dry run left %d records", records)
	}
	cleaned, err := cleanOffline(t, disk, OfflineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if dry.ReclaimedBytes <= 0 || cleaned.RecordsRemoved == 0 {
		t.Errorf("dry run frees %d bytes, clean removed %d records, want both above 0",
			dry.ReclaimedBytes, cleaned.RecordsRemoved)
	}
	if dry.LogWrittenBytes < cleaned.LogWrittenBytes {
		t.Errorf("dry run writes %d bytes, want at least the %d of the clean",
			dry.LogWrittenBytes, cleaned.LogWrittenBytes)
	}
	if dry.RecordsRead != cleaned.RecordsRead || dry.RecordsRemoved != cleaned.RecordsRemoved {
		t.Errorf("records of the dry run %+v, want those of the clean %+v", dry, cleaned)
	}
	if dry.SegmentsRewritten != cleaned.SegmentsRewritten ||
		dry.SegmentsUntouched != cleaned.SegmentsUntouched {
		t.Errorf("segments of the dry run %+v, want those of the clean %+v", dry, cleaned)
	}
	off := float64(dry.ReclaimedBytes-cleaned.ReclaimedBytes) / float64(cleaned.ReclaimedBytes)
	if off > 0.1 || off < -0.1 {
		t.Errorf("dry run: %d bytes freed, clean: %d", dry.ReclaimedBytes, cleaned.ReclaimedBytes)
	}
	if got, _ := latestIn(t, disk); !maps.Equal(got, latest) {
		t.Errorf("latest %v, want %v", got, latest)
	}
}

// TestOfflineCountsASegmentOnce checks that SegmentsRewritten counts a segment once even if two
// passes rewrite it.
func TestOfflineCountsASegmentOnce(t *testing.T) {
	disk := vfs.NewMem()
	s := openStore(t, disk)
	log := createLog(t, s, compacted(nil))
	for _, key := range []string{"gone", "a", "a", "b", "c"} {
		appendBatch(t, log, keyed(t, key))
	}
	appendBatch(t, log, storetest.Batch{Keys: []string{"gone"}, Timestamp: epoch0}.Tombstones(t))
	for range 60 {
		appendBatch(t, log, keyed(t, "a"))
	}
	log.AdvanceHighWatermark(log.LogEnd())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cleaned, err := cleanOffline(t, disk, OfflineOptions{TombstoneRetention: 0})
	if err != nil || cleaned.Passes != 2 || cleaned.TombstonesRemoved != 1 {
		t.Fatalf("cleaned %+v, %v; want two passes that remove the tombstone", cleaned, err)
	}
	if cleaned.SegmentsRewritten+cleaned.SegmentsUntouched != cleaned.SegmentsTotal ||
		cleaned.SegmentsRewritten == 0 {
		t.Errorf("of %d segments %d rewritten and %d untouched", cleaned.SegmentsTotal,
			cleaned.SegmentsRewritten, cleaned.SegmentsUntouched)
	}
}

// unkeyed returns a batch of one record without a key.
func unkeyed(t *testing.T) []byte {
	t.Helper()
	return storetest.Encode(t, storetest.NoProducer,
		record.Record{Value: []byte("a value of some thirty bytes")})
}

// TestOfflineRefusesUnkeyedLog checks that CleanOffline refuses a log without keys, because the log
// would be empty after a clean. The user has probably named the wrong directory.
func TestOfflineRefusesUnkeyedLog(t *testing.T) {
	disk := vfs.NewMem()
	s := openStore(t, disk)
	log := createLog(t, s, settings(nil))
	for range 60 {
		appendBatch(t, log, unkeyed(t))
	}
	log.AdvanceHighWatermark(log.LogEnd())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if _, err := cleanOffline(t, disk, OfflineOptions{DryRun: dry}); !errors.Is(err,
			ErrUnkeyed) {
			t.Errorf("dry %t: %v", dry, err)
		}
	}
	if _, records := latestIn(t, disk); records != 60 {
		t.Errorf("%d records are left", records)
	}
}

func TestOfflineUsesCheckpoints(t *testing.T) {
	disk, _ := closedLog(t, 400, 20)
	name := filepath.Join(dataDir, checkpoint.HighWatermarkFile)
	content := "0\n2\ncarts 7 99\ntickets 0 0\n"
	if err := vfs.WriteFileAtomic(disk, name, []byte(content)); err != nil {
		t.Fatal(err)
	}
	cleaned, err := cleanOffline(t, disk, OfflineOptions{})
	if err != nil || cleaned.RecordsRemoved != 0 {
		t.Errorf("with high watermark 0: %+v, %v", cleaned, err)
	}
	now, err := disk.ReadFile(name)
	if err != nil || !strings.Contains(string(now), "carts 7 99") {
		t.Errorf("the line of the other partition is lost: %q, %v", now, err)
	}
	if err := disk.Remove(filepath.Join(dataDir, checkpoint.RecoveryPointFile)); err != nil {
		t.Fatal(err)
	}
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	if cleaned, err := cleanOffline(t, disk, OfflineOptions{}); err != nil ||
		cleaned.RecordsRemoved == 0 {
		t.Errorf("without checkpoints: %+v, %v", cleaned, err)
	}
}

func TestOfflineRefusesDamagedLog(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, disk *vfs.Mem)
		want   string
	}{
		{"damaged active segment", func(t *testing.T,
			disk *vfs.Mem) {
			flipByte(t, disk, lastLog(t, disk), 70)
		}, "batch at 0"},
		{"damaged segment", func(t *testing.T, disk *vfs.Mem) { flipByte(t, disk, firstLog, 70) },
			"corrupt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk, _ := closedLog(t, 400, 20)
			if err := disk.Remove(filepath.Join(dataDir,
				checkpoint.RecoveryPointFile)); err != nil {
				t.Fatal(err)
			}
			c.change(t, disk)
			before := filesOf(t, disk)
			_, err := cleanOffline(t, disk, OfflineOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if now := filesOf(t, disk); !maps.Equal(before, now) {
				t.Errorf("data files were %v, are %v", before, now)
			}
		})
	}
}

// TestOfflineRebuildsMalformedCheckpoints checks that CleanOffline rebuilds malformed checkpoints,
// as the start of a broker does.
func TestOfflineRebuildsMalformedCheckpoints(t *testing.T) {
	for _, file := range []string{checkpoint.FirstDirtyFile, checkpoint.AbortedFile,
		checkpoint.RecoveryPointFile} {
		for name, damage := range checkpointDamages {
			t.Run(file+" "+name, func(t *testing.T) {
				disk, latest := closedLog(t, 400, 20)
				if _, err := cleanOffline(t, disk, OfflineOptions{DryRun: true}); err != nil {
					t.Fatal(err) // this also writes the checkpoints that the broker did not need yet
				}
				path := filepath.Join(dataDir, file)
				content, err := disk.ReadFile(path)
				if err == nil {
					err = vfs.WriteFileAtomic(disk, path, damage(content))
				}
				if err != nil {
					t.Fatal(err)
				}
				cleaned, err := cleanOffline(t, disk, OfflineOptions{})
				if err != nil || cleaned.RecordsRemoved == 0 {
					t.Fatalf("%+v, %v", cleaned, err)
				}
				if offsets, _ := latestIn(t, disk); !maps.Equal(offsets, latest) {
					t.Errorf("latest offsets %v, want %v", offsets, latest)
				}
				content, err = disk.ReadFile(path)
				if err != nil || !bytes.HasPrefix(content, []byte("0\n")) {
					t.Errorf("%s was not rebuilt: %q, %v", file, content, err)
				}
			})
		}
	}
}

// checkpointDamages lists ways to make a checkpoint file malformed.
var checkpointDamages = map[string]func(content []byte) []byte{
	"flipped":   func(content []byte) []byte { content[0] ^= 0x40; return content },
	"emptied":   func([]byte) []byte { return nil },
	"truncated": func(content []byte) []byte { return content[:1] },
}

// TestOfflineWithoutHighWatermarkCleansNothing runs a clean with an empty high watermark
// checkpoint, while the other checkpoints exist. Then no record is known to be replicated, so a
// clean removes no record.
func TestOfflineWithoutHighWatermarkCleansNothing(t *testing.T) {
	disk, _ := closedLog(t, 400, 20)
	name := filepath.Join(dataDir, checkpoint.HighWatermarkFile)
	if err := vfs.WriteFileAtomic(disk, name, nil); err != nil {
		t.Fatal(err)
	}
	if cleaned, err := cleanOffline(t, disk, OfflineOptions{}); err != nil ||
		cleaned.RecordsRemoved != 0 {
		t.Errorf("%+v, %v", cleaned, err)
	}
}

// TestOfflineExpiresProducersByItsTime checks that producers expire according to the time passed to
// OpenOffline, not to the real time. If a producer is active at that time, its last batch remains,
// even if all records of the batch are superseded.
func TestOfflineExpiresProducersByItsTime(t *testing.T) {
	for _, test := range []struct {
		moment time.Time
		kept   int
	}{{epoch0.Add(time.Hour), 1}, {epoch0.Add(producer.Expiry + time.Hour), 0}, {time.Time{}, 0}} {
		disk := vfs.NewMem()
		s := openStore(t, disk)
		log := createLog(t, s, compacted(nil))
		appendBatch(t, log, storetest.Batch{Producer: 7, Keys: []string{"k0"}}.Bytes(t))
		all, _ := updatesOf(400, 20)
		for _, key := range append(all, "k0") {
			appendBatch(t, log, keyed(t, key))
		}
		fill(t, log, 60)
		log.AdvanceHighWatermark(log.LogEnd())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := cleanOfflineAt(t, disk, OfflineOptions{}, test.moment); err != nil {
			t.Fatal(err)
		}
		slice, err := openStore(t, disk).Logs()[0].ReadReplica(0, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		for _, b := range batchesOf(t, slice) {
			if b.ProducerID() == 7 {
				kept++
			}
		}
		slice.Release()
		if kept != test.kept {
			t.Errorf("cleaned at %v: %d batches of the producer are left, want %d", test.moment, kept,
				test.kept)
		}
	}
}

// TestOfflineLock checks that CleanOffline fails while a broker or another clean holds the data
// directory's lock.
func TestOfflineLock(t *testing.T) {
	disk, _ := closedLog(t, 40, 4)
	s := openStore(t, disk)
	if _, err := cleanOffline(t, disk, OfflineOptions{}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("while a broker runs: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := cleanOffline(t, disk, OfflineOptions{}); err != nil {
		t.Errorf("after the broker stopped: %v", err)
	}
}

// TestOfflineFollowsNoLink checks that OpenOffline does not follow symbolic links. The test uses
// the real filesystem because vfs.Mem has no links.
func TestOfflineFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	dir, elsewhere := filepath.Join(root, "tickets-0"), filepath.Join(root, "elsewhere")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(elsewhere, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) error {
		_, err := logstore.OpenOffline(logstore.Options{FS: vfs.OS{}, Logger: quiet()}, dir,
			time.Time{})
		return err
	}
	if err := open(dir); !errors.Is(err, logstore.ErrNoPartition) ||
		!strings.Contains(err.Error(), "no .log file") {
		t.Errorf("empty directory: %v", err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "00000000000000000000.log")); err != nil {
		t.Fatal(err)
	}
	if err := open(dir); !errors.Is(err, logstore.ErrNoPartition) {
		t.Errorf("directory with a link: %v", err)
	}
	if err := os.Symlink(dir, filepath.Join(root, "link-0")); err != nil {
		t.Fatal(err)
	}
	if err := open(filepath.Join(root, "link-0")); !errors.Is(err, logstore.ErrNoPartition) {
		t.Errorf("link: %v", err)
	}
	if err := open(filepath.Join(root, "missing-0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, lockFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lock file of a refused directory: %v", err)
	}
}

// TestOfflineSurvivesCrashAtEveryStep cuts the power before any rename, creation, removal or sync
// of a clean. The next clean succeeds, and the log still has the latest record of each key.
func TestOfflineSurvivesCrashAtEveryStep(t *testing.T) {
	disk, latest := closedLog(t, 200, 10)
	var crashed []*vfs.Mem
	recorder := &storetest.Disk{FS: disk, Step: func(op, _ string) {
		if op != "write" && op != "truncate" {
			crashed = append(crashed, disk.CrashClone())
		}
	}}
	if _, err := cleanOffline(t, recorder, OfflineOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(crashed) < 10 {
		t.Fatalf("only %d steps", len(crashed))
	}
	for i, clone := range crashed {
		if _, err := cleanOffline(t, clone, OfflineOptions{}); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got, _ := latestIn(t, clone); !maps.Equal(got, latest) {
			t.Fatalf("step %d: latest %v, want %v", i, got, latest)
		}
	}
}

// firstLog is the data file of the first segment.
var firstLog = filepath.Join(offlineDir, "00000000000000000000.log")

// filesOf returns the sizes of the data files.
func filesOf(t *testing.T, disk *vfs.Mem) map[string]int64 {
	t.Helper()
	entries, err := disk.ReadDir(offlineDir)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".log") {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			sizes[entry.Name()] = info.Size()
		}
	}
	return sizes
}

// lastLog returns the data file of the active segment.
func lastLog(t *testing.T, disk *vfs.Mem) string {
	t.Helper()
	last := ""
	for name := range filesOf(t, disk) {
		last = max(last, name)
	}
	return filepath.Join(offlineDir, last)
}

// flipByte changes a byte of a file.
func flipByte(t *testing.T, disk *vfs.Mem, name string, position int64) {
	t.Helper()
	file, err := disk.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, position); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := file.WriteAt(b, position); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}
