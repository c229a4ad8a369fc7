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

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

var update = flag.Bool("update", false, "write the golden files")

const dataDir = "data"

var (
	partition = logstore.PartitionID{Topic: "tickets", Index: 0}
	logDir    = filepath.Join(dataDir, "tickets-0")
	topicOne  = logstore.TopicID{1}
	topicTwo  = logstore.TopicID{2}
	// epoch0 is when tests begin that do not run in a bubble.
	epoch0 = time.UnixMilli(1_700_000_000_000)
)

// Names that logstore gives to files (docs/format/store.md).
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

// settings returns settings with small segments and without retention.
func settings(change func(*topicconfig.Settings)) topicconfig.Settings {
	s := topicconfig.Default()
	s.SegmentBytes = 1000
	s.RetentionTime = topicconfig.Unlimited
	if change != nil {
		change(&s)
	}
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

// sent is a batch as a producer sends it.
type sent struct {
	producer  int64     // 0: none
	timestamp time.Time // default epoch0
	keys      []string
	value     string
}

func (s sent) bytes(t testing.TB) []byte {
	t.Helper()
	return s.build(t, []byte(s.value))
}

// withoutValue returns the batch with null values: tombstones.
func (s sent) withoutValue(t testing.TB) []byte {
	t.Helper()
	return s.build(t, nil)
}

func (s sent) build(t testing.TB, value []byte) []byte {
	t.Helper()
	if s.timestamp.IsZero() {
		s.timestamp = epoch0
	}
	id := record.Identity{LastOffsetDelta: int32(len(s.keys) - 1), LeaderEpoch: -1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	if s.producer != 0 {
		id.ProducerID, id.ProducerEpoch, id.BaseSequence = s.producer, 0, 0
	}
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(id)
	for i, key := range s.keys {
		b.Add(&record.Record{Offset: int64(i), Timestamp: s.timestamp.UnixMilli(), Key: []byte(key),
			Value: value})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// keyed is a batch with one record a key, about 100 bytes with one key.
func keyed(t testing.TB, keys ...string) []byte {
	return sent{keys: keys, value: "a value of some thirty bytes"}.bytes(t)
}

func appendBatch(t testing.TB, log *logstore.Log, batch []byte) {
	t.Helper()
	if _, err := log.Append(batch, epoch0); err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// fill appends n batches of one record, each with another key.
func fill(t testing.TB, log *logstore.Log, n int) {
	t.Helper()
	for range n {
		appendBatch(t, log, keyed(t, fmt.Sprintf("k%d", log.LogEnd())))
	}
}

// readKeys reads the log from offset to its end as a consumer does, and returns offset=key for each
// record.
func readKeys(t testing.TB, log *logstore.Log, offset int64) []string {
	t.Helper()
	keys := []string{}
	for offset < log.LogEnd() {
		slice, err := log.Read(offset, log.LogEnd(), 4096, true)
		if err != nil {
			t.Fatalf("read at %d: %v", offset, err)
		}
		for _, b := range batchesOf(t, slice) {
			err := b.Records(1<<20, func(r *record.Record) error {
				if r.Offset >= offset {
					keys = append(keys, fmt.Sprintf("%d=%s", r.Offset, r.Key))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if b.NextOffset() <= offset {
				t.Fatalf("a read at %d returned a batch that ends at %d", offset, b.NextOffset())
			}
			offset = b.NextOffset()
		}
		if slice.Length == 0 {
			t.Fatalf("a read at %d of %d returned nothing", offset, log.LogEnd())
		}
		slice.Release()
	}
	return keys
}

// batchesOf returns the batches of a slice and checks that they are whole and intact.
func batchesOf(t testing.TB, slice *logstore.Slice) []record.Batch {
	t.Helper()
	if slice.Length == 0 {
		return nil
	}
	content := make([]byte, slice.Length)
	if _, err := slice.File.ReadAt(content, slice.Position); err != nil {
		t.Fatal(err)
	}
	return split(t, content)
}

// split returns the batches of a data file's content.
func split(t testing.TB, content []byte) (batches []record.Batch) {
	t.Helper()
	for len(content) > 0 {
		b, rest, err := record.Next(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
		content = rest
	}
	return batches
}

// segmentBases lists the base offsets of the segments on disk, ascending; the last one is active.
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

// namesIn lists a directory; nothing if it does not exist.
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

// temporaryFiles lists the files of the log that a start, or the end of a pass, has to delete.
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
