package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// keyedSettings returns the settings of a compacted topic, modified by change. A segment has room
// for about five batches of fillKeyed.
func keyedSettings(change func(*topicconfig.Settings)) topicconfig.Settings {
	return settings(func(s *topicconfig.Settings) {
		s.Compact, s.Delete = true, false
		if change != nil {
			change(s)
		}
	})
}

// fillKeyed appends n batches of one record, like fill. The records are large enough that the
// cleaner builds key sidecars in the background.
func fillKeyed(t testing.TB, log *Log, n int) {
	t.Helper()
	for range n {
		appendBatch(t, log, storetest.Batch{Keys: []string{fmt.Sprintf("k%d", log.LogEnd())},
			Value: randomText(100)}.Bytes(t))
	}
}

// keyedLog creates a store and a compacted log of n records, and syncs the records to disk. The
// cleaner may then build the sidecars of all segments except the active one.
func keyedLog(t testing.TB, n int) (*vfs.Mem, *Store, *Log) {
	t.Helper()
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, n)
	store.tick(epoch0, false)
	return fsys, store, log
}

// randomTexts counts the calls of randomText. The count is the seed of the next text: the texts
// differ from each other, but are the same in each run.
var randomTexts atomic.Uint64

// randomText returns text that does not compress.
func randomText(n int) string {
	random := rand.New(rand.NewPCG(randomTexts.Add(1), 0))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return string(text)
}

// keyedSegments returns a log's segments except the active one. They stay readable until the test
// ends.
func keyedSegments(t testing.TB, log *Log) []*segmentlist.Handle {
	t.Helper()
	list := log.list.Acquire()
	t.Cleanup(list.Release)
	return list.Handles[:len(list.Handles)-1]
}

// updateSidecars builds missing sidecars of the log and deletes unneeded ones, as the cleaner does.
func updateSidecars(log *Log, now time.Time) {
	for log.compaction.Sidecars.BuildNext(context.Background(), now,
		sidecars.Options{Background: true}) {
	}
}

// expectedKeys computes the expected content of a key sidecar from the records of its segment.
func expectedKeys(h *segmentlist.Handle, hasher keys.Hasher) (entries []keys.Entry,
	records []keys.Record,
	err error) {
	err = h.Scan(0, func(_ int64, b record.Batch) error {
		return b.Records(1<<20, func(r *record.Record) error {
			null := r.Key == nil || b.Control()
			if !null {
				entries = append(entries,
					keys.Entry{Hash: hasher.Hash(r.Key), Ordinal: uint32(len(records)),
						Tombstone: r.Tombstone()})
			}
			records = append(records,
				keys.Record{BodyBytes: r.BodyBytes(), Tombstone: !null && r.Tombstone(),
					NullKey: null})
			return nil
		})
	})
	slices.SortFunc(entries, func(a, b keys.Entry) int {
		return cmp.Or(cmp.Compare(a.Hash.High, b.Hash.High), cmp.Compare(a.Hash.Low, b.Hash.Low),
			cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return entries, records, err
}

// compareKeys returns an error if a key sidecar's content does not match its segment's records.
func compareKeys(log *Log, h *segmentlist.Handle, reader *keys.Reader) error {
	wantEntries, wantRecords, err := expectedKeys(h, log.compaction.Sidecars.Salt.Load().Hasher())
	if err != nil {
		return err
	}
	var gotEntries []keys.Entry
	entries := reader.Entries(keys.AllHashes)
	for entries.Next() {
		gotEntries = append(gotEntries, entries.Entry())
	}
	var gotRecords []keys.Record
	records := reader.Records()
	for records.Next() {
		gotRecords = append(gotRecords, records.Record())
	}
	batches := reader.Batches()
	for batches.Next() {
	}
	if err := errors.Join(entries.Err(), records.Err(), batches.Err()); err != nil {
		return err
	}
	// The cleaner may have rebuilt a batch. Its records then have different offset and timestamp
	// deltas, so their sizes may differ by a few bytes.
	alike := func(a, b keys.Record) bool {
		return a.Tombstone == b.Tombstone && a.NullKey == b.NullKey &&
			max(a.BodyBytes, b.BodyBytes)-min(a.BodyBytes, b.BodyBytes) < 20
	}
	if !slices.Equal(gotEntries, wantEntries) || !slices.EqualFunc(gotRecords, wantRecords, alike) {
		return errors.New("the sidecar has other records than its segment")
	}
	return nil
}

// checkSidecars checks that each segment except the active one has a correct key sidecar, without
// building any.
func checkSidecars(t testing.TB, log *Log) {
	t.Helper()
	segments := keyedSegments(t, log)
	if len(segments) == 0 {
		t.Fatal("no sealed segment")
	}
	for _, h := range segments {
		reader, err := log.compaction.Sidecars.Open(h, true)
		if err != nil {
			t.Fatalf("segment %d: %v", h.Base(), err)
		}
		if err := compareKeys(log, h, reader); err != nil {
			t.Errorf("segment %d: %v", h.Base(), err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}

// namesWith lists the names in a log's directory that contain a string.
func namesWith(t testing.TB, fsys vfs.FS, log *Log, part string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(log.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), part) {
			names = append(names, entry.Name())
		}
	}
	return names
}
