package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestConcurrentReaders runs readers concurrently with appends, rolls, flushes, retention and
// swaps. Each batch that a reader receives is complete, and is the batch that was appended at its
// offset. At the end no unused file is open or on disk.
func TestConcurrentReaders(t *testing.T) {
	files := &openFiles{FS: vfs.NewMem()}
	store := openStore(t, files)
	log := createLog(t, store,
		settings(func(s *topicconfig.Settings) { s.RetentionBytes = 20_000 }))
	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	for seed := range uint64(3) {
		readers.Go(func() { readConcurrently(t, log, rand.New(rand.NewPCG(seed, 0)), stop) })
	}
	readers.Go(func() {
		for !isClosed(stop) {
			store.tick(epoch0, true)
			_ = log.Stats()
			_, _, _ = log.Timestamps().Largest()
		}
	})
	readers.Go(func() {
		for !isClosed(stop) {
			rewriteFirst(t, log)
		}
	})
	for writer := range 2 {
		writers.Go(func() {
			for range 600 {
				if _, err := log.Append(keyed(t, fmt.Sprintf("w%d", writer), "x"),
					epoch0); err != nil {
					t.Error(err)
				}
				log.AdvanceHighWatermark(log.LogEnd())
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if log.LogEnd() != 2400 || log.LogStart() == 0 {
		t.Errorf("log [%d, %d)", log.LogStart(), log.LogEnd())
	}
	if left := filesWith(t, files, log.dir, swap.DeletedSuffix, swap.SwapSuffix,
		swap.CleanedSuffix); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if n := files.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

func isClosed(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

func readConcurrently(t *testing.T, log *Log, random *rand.Rand, stop chan struct{}) {
	for !isClosed(stop) {
		start, end := log.LogStart(), log.HighWatermark()
		if start >= end {
			continue
		}
		offset := start + random.Int64N(end-start)
		slice, err := log.Read(offset, end, 1+random.IntN(5000), true)
		if errors.Is(err, ErrOffsetOutOfRange) && log.LogStart() > offset {
			continue // retention has deleted the offset
		}
		if err != nil {
			t.Errorf("read at %d: %v", offset, err)
			return
		}
		next := offset
		for _, b := range batchesOf(t, slice) {
			if b.LastOffset() < next || b.LastOffset() >= end || b.BaseOffset()%2 != 0 ||
				b.LastOffsetDelta() != 1 {
				t.Errorf("read [%d, %d): got a batch of [%d, %d]", next, end, b.BaseOffset(),
					b.LastOffset())
			}
			next = b.NextOffset()
		}
		if next == offset {
			t.Errorf("a read of [%d, %d) returned no batch", offset, end)
		}
		slice.Release()
	}
}

// rewriteFirst replaces the log's first two segments by one copy of both, as a cleaning pass does.
func rewriteFirst(t *testing.T, log *Log) {
	view := log.compaction.View(epoch0)
	defer view.Release()
	if len(view.Segments) < 3 {
		return
	}
	sources := view.Segments[:2]
	s, err := segment.Create(log.env.fs, log.dir, sources[0].Base(), swap.CleanedSuffix,
		segment.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, source := range sources {
		err = errors.Join(err,
			source.Scan(0, func(_ int64, b record.Batch) error { return s.Append(b) }))
	}
	if err = errors.Join(err, s.Seal()); err != nil {
		t.Error(err)
	}
	if err := replaceNow(log, sources, []*segment.Segment{s}); err != nil &&
		!errors.Is(err, segmentlist.ErrChanged) {
		t.Error(err)
	}
}

// openFiles is a filesystem that counts the open files, except temporary ones.
type openFiles struct {
	vfs.FS
	open atomic.Int64
}

func (o *openFiles) Create(name string) (vfs.File, error) { return o.count(o.FS.Create(name)) }
func (o *openFiles) OpenReadWrite(name string) (vfs.File, error) {
	return o.count(o.FS.OpenReadWrite(name))
}

func (o *openFiles) count(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file.Name(), vfs.TemporarySuffix) {
		return file, nil
	}
	o.open.Add(1)
	return &countedFile{file, o}, nil
}

type countedFile struct {
	vfs.File
	openFiles *openFiles
}

func (f *countedFile) Close() error {
	f.openFiles.open.Add(-1)
	return f.File.Close()
}

func TestConcurrentReleaseAndClose(t *testing.T) {
	files := &openFiles{FS: vfs.NewMem()}
	store := openStore(t, files)
	for round := range 20 {
		log := createLog(t, store, settings(nil))
		fill(t, log, 10)
		var others sync.WaitGroup
		for range 2 {
			others.Go(func() {
				for {
					slice, err := log.Read(0, 10, 500, true)
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					if len(batchesOf(t, slice)) == 0 {
						t.Error("nothing read")
					}
					slice.Release()
				}
			})
			others.Go(func() {
				for {
					if _, err := log.Append(keyed(t, "k"), epoch0); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		others.Go(func() { store.tick(epoch0, true) })
		if err := store.Release(partition, round%2 == 0); err != nil {
			t.Fatal(err)
		}
		others.Wait()
		if round%2 == 0 {
			log = createLog(t, store, settings(nil))
			if got := readKeys(t, log, 0); len(got) < 10 || int64(len(got)) != log.LogEnd() {
				t.Errorf("%d records are left of %d", len(got), log.LogEnd())
			}
			if err := store.Release(partition, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if n := files.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

// TestOnARealDisk checks that the main operations also work on a real disk, which may reject
// operations that vfs.Mem allows.
func TestOnARealDisk(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		store, err := Open(Options{FS: vfs.OS{}, Dir: dir + "/data", Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	log := createLog(t, store, settings(nil))
	fill(t, log, 45)
	store.tick(epoch0, false)
	slice, err := log.Read(0, 45, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	rewriteFirst(t, log)
	if got := readKeys(t, log, 0); len(got) != 45 {
		t.Errorf("read %v", got)
	}
	if got := len(batchesOf(t, slice)); got != 10 {
		t.Errorf("a held slice has %d batches", got)
	}
	slice.Release()
	if err := store.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	log = createLog(t, store, settings(nil))
	fill(t, log, 5)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/data/" + datadir.CleanShutdownFile); err != nil {
		t.Error(err)
	}
	store = open()
	if got := readKeys(t, store.Log(partition), 0); len(got) != 50 {
		t.Errorf("read %v", got)
	}
	if err := store.Release(partition, false); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
