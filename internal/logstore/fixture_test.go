package logstore

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

const dataDir = "data"

var (
	partition = PartitionID{Topic: "tickets", Index: 0}
	topicOne  = TopicID{1}
	topicTwo  = TopicID{2}
	// epoch0 is the time that tests pass as the current time.
	epoch0 = storetest.Start
)

// Short names of helpers that nearly every test calls.
var (
	settings  = storetest.Settings
	compacted = storetest.Compacted
	keyed     = storetest.Keyed
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

func createLog(t testing.TB, s *Store, config topicconfig.Settings) *Log {
	t.Helper()
	log, err := s.Create(partition, topicOne, config, true)
	if err != nil {
		t.Fatal(err)
	}
	return log
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

// appendAt appends a batch of one record with a timestamp.
func appendAt(t testing.TB, log *Log, timestamp time.Time) {
	t.Helper()
	appendBatch(t, log, storetest.Batch{Keys: []string{"k"}, Timestamp: timestamp}.Bytes(t))
}

// rollNow rolls the log, whatever the size of the active segment.
func rollNow(t testing.TB, log *Log) {
	t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	if err := log.rollLocked(); err != nil {
		t.Fatal(err)
	}
}

// fill appends n batches, each with one record whose key is k<offset>.
func fill(t testing.TB, log *Log, n int) {
	t.Helper()
	for range n {
		appendBatch(t, log, keyed(t, fmt.Sprintf("k%d", log.LogEnd())))
	}
}

// readKeys reads a log's records from an offset to the log end, as a consumer does. It returns
// "offset=key" for each record.
func readKeys(t testing.TB, log *Log, offset int64) []string {
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
func batchesOf(t testing.TB, slice *Slice) []record.Batch {
	t.Helper()
	return storetest.Batches(t, slice.File, slice.Position, slice.Length)
}

// expectKeys returns readKeys' result for the offsets [from, to) of a log that fill has written.
func expectKeys(from, to int64) []string {
	keys := []string{}
	for offset := from; offset < to; offset++ {
		keys = append(keys, fmt.Sprintf("%d=k%d", offset, offset))
	}
	return keys
}

// bases returns the base offsets of the log's segments.
func bases(log *Log) []int64 {
	list := log.list.Acquire()
	defer list.Release()
	var all []int64
	for _, h := range list.Handles {
		all = append(all, h.Base())
	}
	return all
}

// deleteFront deletes segments at the front of a log, as retention does.
func deleteFront(log *Log, count int) error {
	return frontDeletion{log: log, handles: log.list.Load().Handles}.run(count)
}
