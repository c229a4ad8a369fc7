package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestCrashDropsUnsyncedChanges(t *testing.T) {
	mem := NewMem()
	must(t, mem.MkdirAll("d"))
	must(t, mem.SyncDir("/"))
	synced := put(t, mem, "d/synced", "one")
	must(t, synced.Sync())
	put(t, mem, "d/unsynced", "two")
	must(t, mem.SyncDir("d"))
	nameless := put(t, mem, "d/nameless", "three")
	must(t, nameless.Sync())
	_, err := synced.WriteAt([]byte("ONE, and more"), 0)
	must(t, err)

	crashed := mem.CrashClone()
	wantContent(t, crashed, "d/synced", "one")
	wantContent(t, crashed, "d/unsynced", "")
	wantMissing(t, crashed, "d/nameless")
	wantContent(t, mem, "d/synced", "ONE, and more")
}

func TestCrashUndoesDirectoryChangesWithoutSyncDir(t *testing.T) {
	mem := NewMem()
	must(t, put(t, mem, "a", "a").Sync())
	must(t, put(t, mem, "b", "b").Sync())
	must(t, mem.SyncDir("/"))
	must(t, mem.Rename("a", "c"))
	must(t, mem.Remove("b"))

	crashed := mem.CrashClone()
	wantContent(t, crashed, "a", "a")
	wantContent(t, crashed, "b", "b")
	wantMissing(t, crashed, "c")

	must(t, mem.SyncDir("/"))
	crashed = mem.CrashClone()
	wantMissing(t, crashed, "a")
	wantMissing(t, crashed, "b")
	wantContent(t, crashed, "c", "a")
}

func TestCrashMayUndoOneSideOfARenameBetweenDirectories(t *testing.T) {
	mem := NewMem()
	must(t, mem.MkdirAll("from"))
	must(t, mem.MkdirAll("to"))
	must(t, mem.SyncDir("/"))
	must(t, put(t, mem, "from/a", "a").Sync())
	must(t, mem.SyncDir("from"))
	must(t, mem.Rename("from/a", "to/a"))
	must(t, mem.SyncDir("to"))
	crashed := mem.CrashClone()
	wantContent(t, crashed, "from/a", "a")
	wantContent(t, crashed, "to/a", "a")
	must(t, mem.SyncDir("from"))
	wantMissing(t, mem.CrashClone(), "from/a")
}

func TestCrashReleasesLocksAndKeepsSyncedTimes(t *testing.T) {
	mem := NewMem()
	_, err := mem.Lock("lock")
	must(t, err)
	file := put(t, mem, "a", "")
	old := time.UnixMilli(1_500_000_000_000)
	must(t, mem.Chtimes("a", old))
	must(t, file.Sync())
	must(t, mem.SyncDir("/"))
	must(t, mem.Chtimes("a", old.Add(time.Hour)))
	crashed := mem.CrashClone()
	if info, err := crashed.Stat("a"); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("modification time after the crash: %v, %v", info, err)
	}
	begin := time.Now()
	unsynced := put(t, mem, "b", "x")
	must(t, mem.SyncDir("/"))
	if info, err := mem.CrashClone().Stat(unsynced.Name()); err != nil ||
		info.ModTime().Before(begin) {
		t.Errorf("modification time of a file that was never synced: %v, %v", info.ModTime(), err)
	}
	if _, err := crashed.Lock("lock"); err != nil {
		t.Errorf("lock after the crash: %v", err)
	}
}

// TestSyncedContentMatchesModel compares one file with a model of its content and its synced
// content, during random writes, truncations, syncs and crashes.
func TestSyncedContentMatchesModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	mem := NewMem()
	file := put(t, mem, "a", "")
	must(t, mem.SyncDir("/"))
	var now, durable []byte
	for step := range 2000 {
		switch random.IntN(4) {
		case 0, 1:
			index, p := random.IntN(len(now)+20),
				bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(40))
			_, err := file.WriteAt(p, int64(index))
			must(t, err)
			if len(p) > 0 {
				now = resize(bytes.Clone(now), max(len(now), index+len(p)))
				copy(now[index:], p)
			}
		case 2:
			size := random.IntN(len(now) + 10)
			must(t, file.Truncate(int64(size)))
			now = resize(bytes.Clone(now), size)
		case 3:
			must(t, file.Sync())
			durable = bytes.Clone(now)
		}
		got, err := mem.ReadFile("a")
		must(t, err)
		crashed, err := mem.CrashClone().ReadFile("a")
		must(t, err)
		if !bytes.Equal(got, now) || !bytes.Equal(crashed, durable) {
			t.Fatalf("step %d: %q, crashed %q; want %q, %q", step, got, crashed, now, durable)
		}
	}
}

// TestCrashPartlyMixesOldAndNewByPage checks that each byte after a partial crash is the old byte,
// the new byte, or a zero beyond the old size. The same seed must give the same result.
func TestCrashPartlyMixesOldAndNewByPage(t *testing.T) {
	before, after := bytes.Repeat([]byte("o"), 3000), bytes.Repeat([]byte("n"), 5000)
	mem := NewMem()
	file := put(t, mem, "a", string(before))
	must(t, file.Sync())
	must(t, mem.SyncDir("/"))
	_, err := file.WriteAt(after, 0)
	must(t, err)
	sizes, mixed, torn := map[int]bool{}, false, false
	for seed := range uint64(50) {
		got, err := mem.CrashClonePartly(seed).ReadFile("a")
		must(t, err)
		again, _ := mem.CrashClonePartly(seed).ReadFile("a")
		if !bytes.Equal(got, again) {
			t.Fatalf("seed %d gave two different results", seed)
		}
		for i, b := range got {
			if b != 'n' && (b != 'o' || i >= len(before)) && (b != 0 || i < len(before)) {
				t.Fatalf("seed %d: byte %d is %q", seed, i, b)
			}
		}
		sizes[len(got)] = true
		mixed = mixed || bytes.Contains(got, []byte("on"))
		for index := 0; index < len(got); index += pageBytes {
			page := got[index:min(index+pageBytes, len(got))]
			torn = torn || page[0] == 'n' && page[len(page)-1] != 'n'
			if bytes.Contains(page, []byte("on")) {
				t.Fatalf("seed %d: a page has old content before new content", seed)
			}
		}
	}
	if len(sizes) < 3 || !mixed || !torn {
		t.Errorf("50 seeds gave %d sizes (want 3 or more), mixed %v, torn %v", len(sizes), mixed,
			torn)
	}
}

// TestCrashPartlyKeepsAnyDirectoryChanges checks that every subset of five new names can survive a
// partial crash, because POSIX guarantees no order. The subsets that a journal would leave, in
// which the oldest names survive, must be frequent.
func TestCrashPartlyKeepsAnyDirectoryChanges(t *testing.T) {
	mem := NewMem()
	for i := range 5 {
		put(t, mem, fmt.Sprint(i), "")
	}
	subsets := map[string]int{}
	for seed := range uint64(3000) {
		subsets[strings.Join(namesIn(t, mem.CrashClonePartly(seed), "/"), "")]++
	}
	if len(subsets) != 32 {
		t.Errorf("%d subsets of five names survived, want 32: %v", len(subsets), subsets)
	}
	for _, prefix := range []string{"", "0", "01", "012", "0123", "01234"} {
		if subsets[prefix] < 3000/2/6/2 {
			t.Errorf("%q survived %d of 3000 crashes", prefix, subsets[prefix])
		}
	}
}

// TestCrashPartlyLosesDependentChanges checks that a change is lost if an earlier change of the
// same name or the same file is lost.
func TestCrashPartlyLosesDependentChanges(t *testing.T) {
	mem := NewMem()
	put(t, mem, "old", "1")
	must(t, mem.Rename("old", "new")) // changes the same file as the creation of old
	put(t, mem, "old", "2")           // changes the same name as the rename
	// changes the same file and the same name as the line above
	must(t, mem.Rename("old", "other"))
	left := map[string]bool{}
	for seed := range uint64(500) {
		left[strings.Join(namesIn(t, mem.CrashClonePartly(seed), "/"), " ")] = true
	}
	want := map[string]bool{"": true, "old": true, "new": true, "new old": true, "new other": true}
	if !maps.Equal(left, want) {
		t.Errorf("surviving names are %v, want %v", left, want)
	}
}

// TestCrashPartlyKeepsTheOrderOfOneName renames a file away and another one into its place. Either
// rename may be lost, but the second never survives without the first.
func TestCrashPartlyKeepsTheOrderOfOneName(t *testing.T) {
	mem := NewMem()
	for _, name := range []string{"a", "b"} {
		put(t, mem, name, name)
		must(t, mem.MkdirAll("dir"))
	}
	for _, name := range []string{"a", "b"} {
		file, err := mem.OpenReadWrite(name)
		must(t, err)
		must(t, file.Sync())
	}
	must(t, mem.SyncDir("/"))
	must(t, mem.Rename("a", "a.old"))
	must(t, mem.Rename("b", "a"))
	for seed := range seed.Sequence(t, 200) {
		crashed := mem.CrashClonePartly(seed)
		names := strings.Join(namesIn(t, crashed, "/"), " ")
		switch names {
		case "a b dir", "a.old b dir":
		case "a a.old dir":
			wantContent(t, crashed, "a", "b")
			wantContent(t, crashed, "a.old", "a")
		default:
			t.Fatalf("seed %d: surviving names are %s", seed, names)
		}
	}
}

func TestWriteFileAtomicLeavesOldOrNewAtEveryCrash(t *testing.T) {
	for _, partly := range []bool{false, true} {
		for step := 0; ; step++ {
			mem := NewMem()
			must(t, WriteFileAtomic(mem, "a", []byte("old")))
			fault := NewFault(mem)
			// From this step on, every operation fails, as after a power cut.
			fault.Inject(Rule{Skip: step})
			err := WriteFileAtomic(fault, "a", []byte("new, and longer"))
			crashed := mem.CrashClone()
			if partly {
				crashed = mem.CrashClonePartly(uint64(step))
			}
			got, readErr := crashed.ReadFile("a")
			must(t, readErr)
			if string(got) != "old" && string(got) != "new, and longer" {
				t.Fatalf("a crash at step %d leaves %q", step, got)
			}
			if err == nil {
				if string(got) == "old" {
					t.Error("the crash lost content that WriteFileAtomic had reported as written")
				}
				break
			}
		}
	}
}

func TestWriteFileAtomicFailureKeepsOldAndRemovesTemporary(t *testing.T) {
	for _, op := range []Op{OpCreate, OpWrite, OpSync, OpClose, OpRename} {
		mem := NewMem()
		must(t, WriteFileAtomic(mem, "a", []byte("old")))
		fault := NewFault(mem)
		fault.Inject(Rule{Op: op, WriteBytes: 2})
		if err := WriteFileAtomic(fault, "a", []byte("new")); err == nil {
			t.Errorf("%s failed, but WriteFileAtomic returned no error", op)
		}
		wantContent(t, mem, "a", "old")
		if _, err := mem.Stat("a" + TemporarySuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s failed and left the temporary file: %v", op, err)
		}
	}
}
