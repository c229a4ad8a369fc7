package logstore

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

const dataDir = "data"

var (
	partition = PartitionID{Topic: "tickets", Index: 0}
	topicOne  = TopicID{1}
	topicTwo  = TopicID{2}
	// epoch0 is the time at which tests begin.
	epoch0 = time.UnixMilli(1_700_000_000_000)
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openStore opens a store without background flushes.
func openStore(t testing.TB, fsys vfs.FS) *Store {
	t.Helper()
	s, err := Open(Options{FS: fsys, Dir: dataDir, Logger: quiet(), FlushInterval: time.Hour})
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

func createLog(t testing.TB, s *Store, config topicconfig.Settings) *Log {
	t.Helper()
	log, err := s.Create(partition, topicOne, config, true)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// sent is a batch as a producer sends it.
type sent struct {
	producer  int64 // 0: none
	epoch     int16
	sequence  int32
	timestamp time.Time // default epoch0
	keys      []string
	value     string
	txn       bool
}

func (s sent) bytes(t testing.TB) []byte {
	t.Helper()
	id := record.Identity{LastOffsetDelta: int32(len(s.keys) - 1), LeaderEpoch: -1, ProducerID: -1,
		ProducerEpoch: -1, BaseSequence: -1}
	if s.producer != 0 {
		id.ProducerID, id.ProducerEpoch, id.BaseSequence = s.producer, s.epoch, s.sequence
		id.Transactional = s.txn
	}
	if s.timestamp.IsZero() {
		s.timestamp = epoch0
	}
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(id)
	for i, key := range s.keys {
		b.Add(&record.Record{Offset: int64(i), Timestamp: s.timestamp.UnixMilli(), Key: []byte(key),
			Value: []byte(s.value)})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// keyed is a batch of one record per key, about 100 bytes with one.
func keyed(t testing.TB, keys ...string) []byte {
	return sent{keys: keys, value: "a value of some thirty bytes"}.bytes(t)
}

func appendBatch(t testing.TB, log *Log, batch []byte) Appended {
	t.Helper()
	appended, err := log.Append(batch, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
	return appended
}

// fill appends n batches of one record.
func fill(t testing.TB, log *Log, n int) {
	t.Helper()
	for range n {
		appendBatch(t, log, keyed(t, fmt.Sprintf("k%d", log.LogEnd())))
	}
}

// readKeys reads the log from offset to its end as a consumer does, and returns offset=key for each
// record.
func readKeys(t testing.TB, log *Log, offset int64) []string {
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

// batchesOf reads the batches of a slice and checks that they are complete and intact.
func batchesOf(t testing.TB, slice *Slice) []record.Batch {
	t.Helper()
	if slice.Length == 0 {
		return nil
	}
	content := make([]byte, slice.Length)
	if _, err := slice.File.ReadAt(content, slice.Position); err != nil {
		t.Fatal(err)
	}
	var batches []record.Batch
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

// expectKeys is offset=k<offset> for [from, to), as fill appends them.
func expectKeys(from, to int64) []string {
	keys := []string{}
	for offset := from; offset < to; offset++ {
		keys = append(keys, fmt.Sprintf("%d=k%d", offset, offset))
	}
	return keys
}

func bases(log *Log) []int64 {
	list := log.acquire()
	defer list.release()
	var all []int64
	for _, h := range list.handles {
		all = append(all, h.Base())
	}
	return all
}
