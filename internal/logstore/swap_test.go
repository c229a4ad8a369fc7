package logstore

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares the text got with the content of a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (run with -update if the change is intended); got\n%s", file, got)
	}
}

// swapLog returns a log of 50 records in five segments of ten. The first four segments are sealed
// and synced, so a swap may replace them.
func swapLog(t testing.TB, fsys vfs.FS) (*Store, *Log) {
	t.Helper()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	fill(t, log, 50)
	store.tick(epoch0, false)
	if got := bases(log); !slices.Equal(got, []int64{0, 10, 20, 30, 40}) {
		t.Fatalf("segments %v", got)
	}
	return store, log
}

// cleanedOf creates one segment for each list of kept offsets, and copies the batches at these
// offsets into the segment.
func cleanedOf(t testing.TB, log *Log, sources []*segment.Segment,
	kept ...[]int64) ([]*segment.Segment, error) {
	t.Helper()
	var cleaned []*segment.Segment
	for i, offsets := range kept {
		base := sources[0].Base()
		if i > 0 {
			base = offsets[0]
		}
		s, err := segment.Create(log.env.fs, log.dir, base, swap.CleanedSuffix, segment.Config{})
		if err != nil {
			return cleaned, err
		}
		cleaned = append(cleaned, s)
		for _, source := range sources {
			err := source.Scan(0, func(_ int64, b record.Batch) error {
				if slices.Contains(offsets, b.BaseOffset()) {
					return s.Append(b)
				}
				return nil
			})
			if err != nil {
				return cleaned, err
			}
		}
		if err := s.Seal(); err != nil {
			return cleaned, err
		}
	}
	return cleaned, nil
}

func sourcesOf(log *Log, from, to int) []*segment.Segment {
	list := log.list.Acquire()
	defer list.Release()
	var sources []*segment.Segment
	for _, h := range list.Handles[from:to] {
		sources = append(sources, h.Segment)
	}
	return sources
}

// swapKept lists the offsets that swapFiles keeps, per new segment. The second and the third
// segment begin within a replaced segment. Three segments are needed because a disk may reorder the
// renames of a swap: the second segment may have its final name while the first and the third do
// not.
var swapKept = [][]int64{{10, 13}, {18, 22}, {25, 28}}

// swapFiles replaces the two segments with the offsets [10, 30) by three segments with the offsets
// in swapKept.
func swapFiles(t testing.TB, log *Log) error {
	sources := sourcesOf(log, 1, 3)
	cleaned, err := cleanedOf(t, log, sources, swapKept...)
	if err != nil {
		return err
	}
	return replaceNow(log, sources, cleaned)
}

func swapped() []string {
	want := expectKeys(0, 10)
	for _, offset := range slices.Concat(swapKept...) {
		want = append(want, expectKeys(offset, offset+1)...)
	}
	return append(want, expectKeys(30, 50)...)
}

func TestI39ReplacedSegmentsAreReadAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	_, log := swapLog(t, mem)
	before, err := log.Read(10, 50, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := swapFiles(t, log); err != nil {
		t.Fatal(err)
	}
	if got := readKeys(t, log, 0); !slices.Equal(got, swapped()) {
		t.Errorf("read %v", got)
	}
	if got := len(batchesOf(t, before)); got != 10 {
		t.Errorf("a slice from before the swap has %d batches", got)
	}
	if _, err := mem.Stat(filepath.Join(log.dir, "00000000000000000010.log.deleted")); err != nil {
		t.Errorf("the data file that a slice still reads: %v", err)
	}
	before.Release()
	if files := filesWith(t, mem, log.dir, swap.DeletedSuffix, swap.SwapSuffix,
		swap.CleanedSuffix); len(files) > 0 {
		t.Errorf("leftovers: %v", files)
	}
}

func filesWith(t testing.TB, fsys vfs.FS, dir string, suffixes ...string) []string {
	t.Helper()
	files, err := swap.List(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		if slices.Contains(suffixes, f.Suffix) {
			found = append(found, f.Name)
		}
	}
	return found
}

func TestReplaceFailsWhenRetentionDeletedASource(t *testing.T) {
	mem := vfs.NewMem()
	_, log := swapLog(t, mem)
	sources := sourcesOf(log, 0, 2)
	cleaned, err := cleanedOf(t, log, sources, []int64{3})
	if err != nil {
		t.Fatal(err)
	}
	log.maintain.Lock()
	err = deleteFront(log, 1)
	log.maintain.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceNow(log, sources, cleaned); !errors.Is(err, segmentlist.ErrChanged) {
		t.Errorf("got %v", err)
	}
	if got := readKeys(t, log, 10); !slices.Equal(got, expectKeys(10, 50)) {
		t.Errorf("read %v", got)
	}
	if files := filesWith(t, mem, log.dir, swap.CleanedSuffix); len(files) > 0 {
		t.Errorf("leftovers: %v", files)
	}
}

func TestReplaceRejectsInvalidSegments(t *testing.T) {
	for _, test := range []struct {
		name     string
		from, to int
		kept     [][]int64
	}{
		{"the active segment (I1)", 3, 5, [][]int64{{30}}},
		{"no segment at the first source's base", 1, 2, nil},
		{"offsets above the sources", 1, 2, [][]int64{{10}, {20}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, log := swapLog(t, vfs.NewMem())
			cleaned, err := cleanedOf(t, log, sourcesOf(log, test.from, 5), test.kept...)
			if err != nil {
				t.Fatal(err)
			}
			if err := replaceNow(log, sourcesOf(log, test.from, test.to), cleaned); err == nil {
				t.Error("accepted")
			}
			if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 50)) {
				t.Errorf("read %v", got)
			}
		})
	}
}

// TestReplacedSegmentsKeepTheTimeOfTheLastSource checks that cleaned segments get the modification
// time of the last replaced segment, which retention and minLag use.
func TestReplacedSegmentsKeepTheTimeOfTheLastSource(t *testing.T) {
	_, log := swapLog(t, vfs.NewMem())
	sources := sourcesOf(log, 1, 3)
	want := epoch0.Add(-100 * time.Hour)
	if err := sources[1].SetModTime(want); err != nil {
		t.Fatal(err)
	}
	if err := swapFiles(t, log); err != nil {
		t.Fatal(err)
	}
	for _, s := range sourcesOf(log, 1, 3) {
		if !s.ModTime().Equal(want) {
			t.Errorf("segment %d has time %v", s.Base(), s.ModTime())
		}
	}
}

func TestSwapTrace(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	_, log := swapLog(t, trace)
	sources := sourcesOf(log, 1, 3)
	cleaned, err := cleanedOf(t, log, sources, swapKept...)
	if err != nil {
		t.Fatal(err)
	}
	trace.Take()
	if err := replaceNow(log, sources, cleaned); err != nil {
		t.Fatal(err)
	}
	golden(t, "swap.trace", trace.Take())
}

// TestCrashAtEveryStepOfSwap cuts the power at any step of a swap, and again at any step of the
// following recovery. The log contains either the old or the new records.
func TestCrashAtEveryStepOfSwap(t *testing.T) {
	for step := 0; ; step++ {
		mem := vfs.NewMem()
		fault := vfs.NewFault(mem)
		_, log := swapLog(t, fault)
		fault.Inject(vfs.Rule{Skip: step})
		err := swapFiles(t, log)
		for seed := range uint64(8) {
			crashed := crash(mem, seed)
			if second := step % 3; seed == 0 || second == 0 {
				crashAtEveryStart(t, crashed, fmt.Sprintf("step %d, seed %d", step, seed))
			}
			checkSwapped(t, crashed, fmt.Sprintf("step %d, seed %d", step, seed))
		}
		if err == nil {
			if step < 40 {
				t.Errorf("the swap ended after %d steps, want at least 40", step)
			}
			return
		}
	}
}

// crash returns the disk as a power failure leaves it. With seed 0 no unsynced change is kept, with
// another seed a random part of the unsynced changes.
func crash(mem *vfs.Mem, seed uint64) *vfs.Mem {
	if seed == 0 {
		return mem.CrashClone()
	}
	return mem.CrashClonePartly(seed)
}

func crashAtEveryStart(t *testing.T, crashed *vfs.Mem, what string) {
	t.Helper()
	for step := 0; ; step += 3 {
		mem := crashed.CrashClone()
		fault := vfs.NewFault(mem)
		fault.Inject(vfs.Rule{Skip: step})
		files, err := swap.Repair(fault, filepath.Join(dataDir, partition.String()))
		checkSwapped(t, mem.CrashClonePartly(uint64(step)),
			fmt.Sprintf("%s, recovery interrupted at step %d", what, step))
		if err == nil {
			if len(swap.BasesOf(files)) == 0 {
				t.Fatalf("%s: no segment found", what)
			}
			return
		}
	}
}

func checkSwapped(t *testing.T, crashed *vfs.Mem, what string) {
	t.Helper()
	store := openStore(t, crashed)
	log := createLog(t, store, settings(nil))
	got := readKeys(t, log, 0)
	if !slices.Equal(got, expectKeys(0, 50)) && !slices.Equal(got, swapped()) {
		t.Fatalf("%s: neither the old nor the new log: %v", what, got)
	}
	if files := filesWith(t, crashed, log.dir, swap.CleanedSuffix, swap.SwapSuffix,
		swap.DeletedSuffix); len(files) > 0 {
		t.Fatalf("%s: left behind: %v", what, files)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// replaceNow replaces segments by cleaned segments, like a pass that began after the last
// truncation.
func replaceNow(log *Log, sources, cleaned []*segment.Segment) error {
	return log.replaceIn(log.truncations.Load(), sources, cleaned)
}
