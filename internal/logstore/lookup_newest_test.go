package logstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/lookup"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestLookupBeginsWithTheNewestBatch checks that a lookup finds a key with very many batches in one
// segment, although the limit is too low to locate all of them.
func TestLookupBeginsWithTheNewestBatch(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(func(s *topicconfig.Settings) {
		s.SegmentBytes = 1 << 30
	}))
	const batches = 9000
	for range batches {
		appendBatch(t, log, keyed(t, "hot"))
	}
	rollNow(t, log)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	found, err := lookup.Find(t.Context(), log.Compaction(), []byte("hot"),
		lookup.Options{Latest: true, BytesMax: 128 << 10})
	if err != nil || found.Latest() == nil {
		t.Fatalf("latest: got %+v, error %v", found, err)
	}
	if got := found.Latest().Offset; got != batches-1 {
		t.Errorf("latest: offset %d, want %d", got, batches-1)
	}
	if !found.Complete || found.Scanned > 1 {
		t.Errorf("latest: complete %t, %d scanned, want true and at most 1", found.Complete,
			found.Scanned)
	}
	found, err = lookup.Find(t.Context(), log.Compaction(), []byte("hot"),
		lookup.Options{BytesMax: 512 << 10})
	if err != nil || found.Complete || len(found.Records) < 100 ||
		found.Records[0].Offset != batches-1 {
		t.Errorf("history: complete %t, %d records, error %v", found.Complete, len(found.Records),
			err)
	}
	for i, r := range found.Records {
		if r.Offset != int64(batches-1-i) {
			t.Fatalf("record %d has the offset %d", i, r.Offset)
		}
	}
}

// TestLookupWithDamagedSidecars flips bytes of key sidecars. A lookup then still finds the same
// records. It scans the segment if it needs the damaged part of the sidecar.
func TestLookupWithDamagedSidecars(t *testing.T) {
	scanned := 0
	for s := range seed.Sequence(t, 3) {
		random := rand.New(rand.NewPCG(s, 0))
		disk := vfs.NewMem()
		store := openStore(t, disk)
		r := &lookupRun{t: t, random: random, store: store, now: epoch0}
		r.log = createLog(t, store, keyedSettings(nil))
		for range 100 {
			r.step()
		}
		rollNow(t, r.log)
		store.tick(epoch0, false)
		updateSidecars(r.log, r.now)
		for range 40 {
			scanned += flipAndLookUp(t, r, disk)
		}
	}
	if scanned == 0 {
		t.Error("no lookup has found the damage")
	}
}

// flipAndLookUp changes a byte of a sidecar, looks up all keys, and restores the byte. It returns
// the number of sealed segments that were scanned.
func flipAndLookUp(t *testing.T, r *lookupRun, disk vfs.FS) (scanned int) {
	t.Helper()
	list := r.log.list.Acquire()
	defer list.Release()
	h := list.Handles[r.random.IntN(len(list.Handles))]
	name := filepath.Join(r.log.dir, segment.Name(h.Base(), keys.Extension, ""))
	content, err := disk.ReadFile(name)
	if err != nil {
		return 0 // the active segment
	}
	index := r.random.IntN(len(content))
	damaged := bytes.Clone(content)
	damaged[index] ^= 1 << r.random.IntN(8)
	overwrite(t, disk, name, damaged)
	defer overwrite(t, disk, name, content)
	for k := range 12 {
		scanned += checkLookup(t, r.log, fmt.Sprint("k", k), r.random.IntN(2) == 0).Scanned - 1
	}
	return max(scanned, 0)
}

// TestRecordsBeforeDamageAreFoundOnce checks a lookup that finds records by a sidecar and then
// finds damage in the sidecar. It scans the segment, and returns each record once.
func TestRecordsBeforeDamageAreFoundOnce(t *testing.T) {
	disk := vfs.NewMem()
	store := openStore(t, disk)
	log := createLog(t, store, keyedSettings(func(s *topicconfig.Settings) {
		s.SegmentBytes = 1 << 30
	}))
	const batches = 2500                                // enough for entries of three pages
	value := string(bytes.Repeat([]byte("value "), 50)) // small records get no sidecar
	for range batches {
		appendBatch(t, log, storetest.Batch{Keys: []string{"hot"}, Value: value}.Bytes(t))
	}
	rollNow(t, log)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	name := filepath.Join(log.dir, segment.Name(0, keys.Extension, ""))
	content := mustRead(t, disk, name)
	for part := range 40 {
		damaged := bytes.Clone(content)
		damaged[len(content)*part/40] ^= 1
		overwrite(t, disk, name, damaged)
		found, err := lookup.Find(t.Context(), log.Compaction(), []byte("hot"), lookup.Options{})
		if err != nil || !found.Complete || len(found.Records) != batches {
			t.Fatalf("part %d: complete %t, %d records, error %v", part, found.Complete,
				len(found.Records), err)
		}
		for i, r := range found.Records {
			if r.Offset != int64(batches-1-i) {
				t.Fatalf("part %d: record %d has the offset %d", part, i, r.Offset)
			}
		}
	}
}

// TestLookupOfHugeKeys looks up keys that differ only in their last byte and are larger than a
// page.
func TestLookupOfHugeKeys(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MessageBytesMax = 1<<24, 1<<22
	}))
	long := string(bytes.Repeat([]byte("x"), 100_000))
	appendBatch(t, log, storetest.Batch{Keys: []string{long + "a", long + "b", ""},
		Value: "value"}.Bytes(t))
	appendBatch(t, log, storetest.Batch{Keys: []string{long + "a"}, Value: "newer"}.Bytes(t))
	rollNow(t, log)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	for key, want := range map[string]int{long + "a": 2, long + "b": 1, "": 1, long: 0} {
		if found := checkLookup(t, log, key, false); len(found.Records) != want {
			t.Errorf("a key of %d bytes has %d records, want %d", len(key), len(found.Records),
				want)
		}
	}
}
