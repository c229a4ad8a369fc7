package cleaner

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

var update = flag.Bool("update", false, "write the golden files")

const dataDir = "data"

var (
	partition = logstore.PartitionID{Topic: "tickets", Index: 0}
	logDir    = filepath.Join(dataDir, "tickets-0")
	topicOne  = logstore.TopicID{1}
	topicTwo  = logstore.TopicID{2}
	// epoch0 is the time that tests outside of synctest use as the current time.
	epoch0 = storetest.Start
)

// Short names of helpers that nearly every test calls.
var (
	settings  = storetest.Settings
	compacted = storetest.Compacted
	keyed     = storetest.Keyed
)

// Names and suffixes of files that logstore creates (docs/internals/format/store.md).
const (
	epochFile     = "leader-epoch-checkpoint" // in the log's directory
	lockFile      = ".lock"
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
	deletedSuffix = ".deleted"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openStore opens a store that flushes only when it is closed.
func openStore(t testing.TB, fsys vfs.FS) *logstore.Store {
	t.Helper()
	s, err := logstore.Open(logstore.Options{FS: fsys, Dir: dataDir, Logger: quiet(),
		FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func createLog(t testing.TB, s *logstore.Store, config topicconfig.Settings) *logstore.Log {
	t.Helper()
	log, err := s.Create(partition, topicOne, config, true)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func appendBatch(t testing.TB, log *logstore.Log, batch []byte) {
	t.Helper()
	if _, err := log.Append(batch, epoch0); err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// fill appends n batches, each with one record and a different key.
func fill(t testing.TB, log *logstore.Log, n int) {
	t.Helper()
	for range n {
		appendBatch(t, log, keyed(t, fmt.Sprintf("k%d", log.LogEnd())))
	}
}

// readKeys reads a log's records from an offset to the log end, as a consumer does. It returns
// "offset=key" for each record.
func readKeys(t testing.TB, log *logstore.Log, offset int64) []string {
	t.Helper()
	return storetest.ReadKeys(t, offset, log.LogEnd(),
		func(offset int64) ([]record.Batch, error) {
			slice, err := log.Read(offset, log.LogEnd(), 4096, true)
			if err != nil {
				return nil, err
			}
			defer slice.Release()
			return batchesOf(t, slice), nil
		})
}

// batchesOf reads the batches of a slice and checks that they are complete and intact.
func batchesOf(t testing.TB, slice *logstore.Slice) []record.Batch {
	t.Helper()
	return storetest.Batches(t, slice.File, slice.Position, slice.Length)
}

// segmentBases returns the base offsets of the segments on disk in ascending order. The last
// segment is the active one.
func segmentBases(t testing.TB, fsys vfs.FS) (bases []int64) {
	t.Helper()
	for _, name := range namesIn(t, fsys, logDir) {
		if base, ok := strings.CutSuffix(name, segment.LogExtension); ok {
			offset, err := strconv.ParseInt(base, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			bases = append(bases, offset)
		}
	}
	slices.Sort(bases)
	return bases
}

// namesIn returns the names in a directory, or nil if the directory does not exist.
func namesIn(t testing.TB, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// temporaryFiles returns the log's files that should not exist after a start or after the end of a
// pass.
func temporaryFiles(t testing.TB, fsys vfs.FS) (names []string) {
	t.Helper()
	for _, name := range namesIn(t, fsys, logDir) {
		for _, suffix := range []string{cleanedSuffix, swapSuffix, deletedSuffix,
			vfs.TemporarySuffix} {
			if strings.HasSuffix(name, suffix) {
				names = append(names, name)
			}
		}
	}
	return names
}

func segmentPath(base int64) string {
	return filepath.Join(logDir, segment.Name(base, segment.LogExtension, ""))
}
