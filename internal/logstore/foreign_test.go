package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
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
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

const (
	firstLog  = "tickets-0/00000000000000000000.log"
	secondLog = "tickets-0/00000000000000000020.log"
)

// foreignFiles returns data directories that another program has written, with the words that the
// refusal must contain.
func foreignFiles(t *testing.T) map[string]struct {
	files map[string][]byte
	want  []string
} {
	t.Helper()
	old := func(magic int8) []byte { return storetest.OldMessages(magic, 0, 20) }
	v2 := func(offset int64) []byte {
		b := storetest.Keyed(t, "k")
		record.Batch(b).SetBaseOffset(offset)
		return b
	}
	later := v2(0)
	later[16] = 7
	laterSnapshot := []byte{0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 9}
	binary.BigEndian.PutUint32(laterSnapshot[2:],
		crc32.Checksum(laterSnapshot[6:], crc32.MakeTable(crc32.Castagnoli)))
	file := filepath.Base(firstLog)
	return map[string]struct {
		files map[string][]byte
		want  []string
	}{
		"v0": {map[string][]byte{firstLog: old(0)}, []string{"tickets-0", file, "offset 0", "v0"}},
		"v1 and leftovers": {map[string][]byte{firstLog: old(1),
			"tickets-0/00000000000000000000.index":       make([]byte, 80),
			"tickets-0/00000000000000000000.log.deleted": old(1),
			"tickets-0/00000000000000000007.index":       nil,
			"tickets-0/partition.metadata.tmp":           nil},
			[]string{"tickets-0", file, "offset 0", "v1"}},
		"compressed v1": {map[string][]byte{firstLog: storetest.OldCompressed(t, 1, 0, 20)},
			[]string{file, "offset 19", "v1"}},
		"v1, then segments of v2": {map[string][]byte{firstLog: old(1), secondLog: v2(20)},
			[]string{file, "offset 0", "v1"}},
		"segments of v2, then v1": {map[string][]byte{firstLog: v2(0),
			secondLog: storetest.OldMessages(1, 20, 3)},
			[]string{filepath.Base(secondLog), "offset 20", "v1"}},
		"v2 and v1 in a segment": {map[string][]byte{
			firstLog:  slices.Concat(v2(0), storetest.OldMessages(1, 1, 3), v2(4)),
			secondLog: v2(20)}, []string{file, "offset 1 at position 97", "v1"}},
		"v1, then an empty segment": {map[string][]byte{firstLog: old(1), secondLog: nil},
			[]string{file, "offset 0", "v1"}},
		"swap of v1": {map[string][]byte{firstLog + ".swap": old(1), secondLog + ".deleted": v2(20)},
			[]string{file + ".swap", "offset 0", "v1"}},
		"a later format": {map[string][]byte{firstLog: later}, []string{file, "offset 0", "v7"}},
		"a later snapshot": {map[string][]byte{firstLog: v2(0),
			"tickets-0/00000000000000000001.snapshot": laterSnapshot},
			[]string{"00000000000000000001.snapshot", "unsupported version 2"}},
		"later leader epochs": {map[string][]byte{firstLog: v2(0),
			"tickets-0/leader-epoch-checkpoint": []byte("1\n1\n0 0 x\n")},
			[]string{"leader-epoch-checkpoint", "unsupported version 1"}},
		"later checkpoint": {map[string][]byte{firstLog: v2(0),
			"recovery-point-offset-checkpoint": []byte("3\n{}\n")},
			[]string{"recovery-point-offset-checkpoint", "unsupported version 3"}},
	}
}

// foreignDirectory writes the given files, and the files that every Kafka broker leaves.
func foreignDirectory(t *testing.T, files map[string][]byte, clean bool) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	all := map[string][]byte{
		"meta.properties":                  []byte("version=1\ncluster.id=c\n"),
		"replication-offset-checkpoint":    []byte("0\n1\ntickets 0 1\n"),
		"other-0/00000000000000000000.log": storetest.Keyed(t, "k"),
		"tickets-0/partition.metadata": []byte("version: 0\ntopic_id: " + topicOne.String() +
			"\n"),
	}
	maps.Copy(all, files)
	if clean {
		all[datadir.CleanShutdownFile] = []byte(`{"version":0,"brokerEpoch":12}`)
	}
	for name, content := range all {
		path := filepath.Join(dataDir, name)
		if err := errors.Join(mem.MkdirAll(filepath.Dir(path)),
			vfs.WriteFileAtomic(mem, path, content)); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// wantUnchanged checks that no file except the lock file was changed.
func wantUnchanged(t *testing.T, name string, trace *vfs.Trace) {
	t.Helper()
	for line := range strings.Lines(trace.Take()) {
		if !strings.Contains(line, datadir.LockFile) {
			t.Errorf("%s: a file was changed: %s", name, line)
		}
	}
}

func wantWords(t *testing.T, name string, err error, want []string) {
	t.Helper()
	for _, word := range want {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: error %v, want %q", name, err, word)
		}
	}
}

// TestForeignFilesAreRefusedUnchanged checks that a data directory with records in another message
// format, or with files of a later version, is refused with an error that names the file and the
// offset, and that no file is changed. This holds after a clean shutdown of the other program and
// after a crash, for a store and for log clean.
func TestForeignFilesAreRefusedUnchanged(t *testing.T) {
	for name, c := range foreignFiles(t) {
		for _, clean := range []bool{true, false} {
			trace := vfs.NewTrace(foreignDirectory(t, c.files, clean), dataDir)
			opts := Options{FS: trace, Dir: dataDir, Logger: quiet()}
			store, err := Open(opts)
			if err == nil {
				t.Errorf("%s: opened", name)
				_ = store.Close()
				continue
			}
			wantWords(t, name, err, c.want)
			wantUnchanged(t, name, trace)
			if c.files[firstLog] == nil {
				continue // log clean refuses any directory without a .log file
			}
			_, err = OpenOffline(opts, filepath.Join(dataDir, "tickets-0"), time.Time{})
			wantWords(t, name, err, c.want)
			wantUnchanged(t, name, trace)
		}
	}
}

// TestOldRecordsInAUsedLogKeepItOffline checks a log that a broker has used and into whose
// directory somebody copied old segments. The log stays offline, its data files stay unchanged, and
// the other logs are served.
func TestOldRecordsInAUsedLogKeepItOffline(t *testing.T) {
	for name, c := range foreignFiles(t) {
		if strings.Contains(name, "checkpoint") || c.files[firstLog] == nil {
			continue
		}
		for _, clean := range []bool{true, false} {
			mem := foreignDirectory(t, c.files, clean)
			if err := datadir.WritePolicy(mem, filepath.Join(dataDir, "tickets-0"), true); err != nil {
				t.Fatal(err)
			}
			store := openStore(t, mem)
			wantWords(t, name, store.Offline()[partition], c.want)
			if store.Log(PartitionID{Topic: "other"}) == nil {
				t.Errorf("%s: the other log is not open", name)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			for file, content := range c.files {
				got, err := mem.ReadFile(filepath.Join(dataDir, file))
				if strings.HasSuffix(file, segment.LogExtension) && (err != nil ||
					!bytes.Equal(got, content)) {
					t.Errorf("%s: %s has %d bytes, error %v", name, file, len(got), err)
				}
			}
		}
	}
}

// TestTornEndIsStillTruncated checks that bytes after the valid batches that are not records in any
// format are truncated after a crash, also in a directory that another program has written.
func TestTornEndIsStillTruncated(t *testing.T) {
	batch := storetest.Keyed(t, "k")
	for name, tail := range map[string][]byte{
		"zeros":            make([]byte, 5000),
		"incomplete v2":    batch[:70],
		"incomplete v1":    storetest.OldMessages(1, 1, 1)[:30],
		"damaged v1":       append(storetest.OldMessages(1, 1, 1)[:40], "xxxxx"...),
		"a part of a text": []byte(strings.Repeat("some text of a value ", 30)),
	} {
		mem := foreignDirectory(t, map[string][]byte{firstLog: slices.Concat(batch, tail)}, false)
		store := openStore(t, mem)
		log := store.Log(partition)
		if log == nil || log.LogEnd() != 1 {
			t.Errorf("%s: log %v, offline %v, want the end 1", name, log, store.Offline())
			continue
		}
		if info, err := mem.Stat(filepath.Join(dataDir, firstLog)); err != nil ||
			info.Size() != int64(len(batch)) {
			t.Errorf("%s: %v, %v, want %d bytes", name, info, err, len(batch))
		}
	}
}

// TestFilesOfOthersAreKept checks that a start removes temporary files that a crash has left, but
// no file of another program, and does not change Kafka's metadata log.
func TestFilesOfOthersAreKept(t *testing.T) {
	kept := []string{"tickets-0/notes.tmp", "tickets-0/README",
		"__cluster_metadata-0/00000000000000000000.log",
		"__cluster_metadata-0/00000000000000000000.log.deleted",
		"__cluster_metadata-0/leader-epoch-checkpoint.tmp"}
	removed := []string{"tickets-0/leader-epoch-checkpoint.tmp", "tickets-0/partition.metadata.tmp",
		"tickets-0/00000000000000000000.index.tmp"}
	files := map[string][]byte{firstLog: storetest.Keyed(t, "k")}
	for _, name := range slices.Concat(kept, removed) {
		files[name] = []byte("x")
	}
	mem := foreignDirectory(t, files, false)
	openStore(t, mem)
	for _, name := range kept {
		if content, err := mem.ReadFile(filepath.Join(dataDir, name)); string(content) != "x" {
			t.Errorf("%s: %q, %v, want it unchanged", name, content, err)
		}
	}
	for _, name := range removed {
		if _, err := mem.Stat(filepath.Join(dataDir, name)); err == nil {
			t.Errorf("%s was kept", name)
		}
	}
}

// TestDamagedSmallFilesAreStillRebuilt checks that a store does not mistake a damaged file for a
// file of a later version.
func TestDamagedSmallFilesAreStillRebuilt(t *testing.T) {
	for _, content := range []string{"", "\x00\x00\x00", "0\n5\n", "x", "-1\n0\n", "99999999\n0\n"} {
		if _, err := checkpoint.DecodeOffsets([]byte(content)); !errors.Is(err,
			checkpoint.ErrMalformed) || errors.Is(err, checkpoint.ErrVersion) {
			t.Errorf("checkpoint %q: %v", content, err)
		}
		snapshot := fmt.Sprintf("\x00\x02%s........", content)
		if _, err := producer.Decode([]byte(snapshot), 1); !errors.Is(err, producer.ErrSnapshot) ||
			errors.Is(err, producer.ErrVersion) {
			t.Errorf("snapshot %q: %v", snapshot, err)
		}
	}
}
