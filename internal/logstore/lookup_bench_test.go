package logstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/lookup"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// countingFS counts the bytes that are read from files.
type countingFS struct {
	vfs.FS
	read *atomic.Int64
}

func (c countingFS) count(f vfs.File, err error) (vfs.File, error) {
	return countingFile{f, c.read}, err
}

func (c countingFS) Open(name string) (vfs.File, error) { return c.count(c.FS.Open(name)) }

func (c countingFS) OpenReadWrite(name string) (vfs.File, error) {
	return c.count(c.FS.OpenReadWrite(name))
}

func (c countingFS) Create(name string) (vfs.File, error) { return c.count(c.FS.Create(name)) }

func (c countingFS) ReadFile(name string) ([]byte, error) {
	content, err := c.FS.ReadFile(name)
	c.read.Add(int64(len(content)))
	return content, err
}

type countingFile struct {
	vfs.File
	read *atomic.Int64
}

func (f countingFile) ReadAt(p []byte, position int64) (int, error) {
	n, err := f.File.ReadAt(p, position)
	f.read.Add(int64(n))
	return n, err
}

// lookupKeys returns the number of keys of BenchmarkLookup.
func lookupKeys(b *testing.B) int {
	b.Helper()
	text := os.Getenv("HEARTWOOD_LOOKUP_KEYS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// lookupBench is a log on the real disk whose reads are counted.
type lookupBench struct {
	fsys  countingFS
	dir   string
	store *Store
	log   *Log
	value string
}

func (l *lookupBench) open(b *testing.B) {
	b.Helper()
	var err error
	l.store, err = Open(Options{FS: l.fsys, Dir: l.dir, Logger: quiet(), FlushInterval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	l.log = createLog(b, l.store, keyedSettings(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MessageBytesMax = 256<<20, 1<<20
	}))
}

func (l *lookupBench) close(b *testing.B) {
	b.Helper()
	if err := l.store.Close(); err != nil {
		b.Fatal(err)
	}
}

// fill appends n records in batches of 64 records (about 13 KiB), and builds the sidecars.
func (l *lookupBench) fill(b *testing.B, n int, key func(i int) int) {
	b.Helper()
	const perBatch = 64
	var batch []string
	for i := range n {
		batch = append(batch, fmt.Sprintf("ticket-%08d", key(i)))
		if len(batch) == perBatch || i == n-1 {
			appendBatch(b, l.log, storetest.Batch{Keys: batch, Value: l.value}.Bytes(b))
			batch = nil
		}
	}
	rollNow(b, l.log)
	l.store.tick(epoch0, false)
	updateSidecars(l.log, epoch0)
}

// lookup returns the records of a key, and the number of bytes that were read.
func (l *lookupBench) lookup(b *testing.B, key string) (lookup.Records, int64) {
	b.Helper()
	before := l.fsys.read.Load()
	found, err := lookup.Find(b.Context(), l.log.Compaction(), []byte(key),
		lookup.Options{ValueBytesMax: 1 << 20})
	if err != nil || !found.Complete || found.Scanned > 1 {
		b.Fatalf("complete %t, %d scanned, error %v", found.Complete, found.Scanned, err)
	}
	return found, l.fsys.read.Load() - before
}

// measure looks up random existing keys, and random keys that do not exist.
func (l *lookupBench) measure(b *testing.B, keyCount int) {
	l.close(b)
	l.open(b)
	random := rand.New(rand.NewPCG(1, 0))
	var miss, sum int64
	var hits []int64 // extra bytes per segment with the key, compared with a miss
	for b.Loop() {
		none, missed := l.lookup(b, fmt.Sprintf("none-%d", random.IntN(keyCount)))
		miss = max(miss, missed/int64(none.Segments-1))
		found, total := l.lookup(b, fmt.Sprintf("ticket-%08d", random.IntN(keyCount)))
		if found.Latest() == nil || len(found.Latest().Value) != len(l.value) {
			b.Fatalf("got %+v", found)
		}
		in := map[int64]bool{}
		for _, r := range found.Records {
			in[r.Segment] = true
		}
		each := (total - missed) / int64(len(in))
		hits, sum = append(hits, each), sum+each
	}
	slices.Sort(hits)
	b.ReportMetric(float64(miss), "B/miss")
	b.ReportMetric(float64(sum)/float64(len(hits))+float64(miss), "B/hit")
	b.ReportMetric(float64(hits[len(hits)*99/100]+miss), "B/hit-p99")
	b.ReportMetric(float64(hits[len(hits)-1]+miss), "B/hit-max")
	b.ReportMetric(float64(len(bases(l.log))-1), "segments")
}

// BenchmarkLookup looks up keys in a log on the real disk. The store was just opened, so the
// process has no part of the log in memory. The benchmark reports the bytes that a lookup reads in
// a segment with the key and in a segment without it. HEARTWOOD_LOOKUP_KEYS is the number of keys.
func BenchmarkLookup(b *testing.B) {
	keyCount := lookupKeys(b)
	l := &lookupBench{fsys: countingFS{vfs.OS{}, new(atomic.Int64)}, dir: b.TempDir(),
		value: randomText(180)}
	l.open(b)
	defer func() { l.close(b) }()
	l.fill(b, keyCount, func(i int) int { return i })
	b.Run("appended", func(b *testing.B) { l.measure(b, keyCount) })
	random := rand.New(rand.NewPCG(2, 0))
	l.fill(b, keyCount/3, func(int) int { return random.IntN(keyCount) })
	if _, err := compact(b.Context(), l.log); err != nil {
		b.Fatal(err)
	}
	b.Run("cleaned", func(b *testing.B) { l.measure(b, keyCount) })
}
