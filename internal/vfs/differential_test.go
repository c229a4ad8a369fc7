package vfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestMemBehavesLikeTheDisk runs the same random operations on OS and Mem. Each operation must
// succeed on both or fail on both, and the directory trees must stay equal.
func TestMemBehavesLikeTheDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	disk := t.TempDir()
	mem := NewMem()
	names := []string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "missing/a"}
	for step := range 500 {
		op, from, to := random.IntN(8), names[random.IntN(len(names))],
			names[random.IntN(len(names))]
		if strings.HasPrefix(to+"/", from+"/") {
			continue // no caller renames a directory into itself
		}
		text := strings.Repeat("x", random.IntN(20))
		onDisk := doRandom(OS{}, disk, op, from, to, text)
		inMem := doRandom(mem, "/", op, from, to, text)
		if (onDisk == nil) != (inMem == nil) {
			t.Fatalf("step %d, operation %d on %s, %s: disk %v, memory %v", step, op, from, to,
				onDisk, inMem)
		}
		if want, got := listTree(t, OS{}, disk), listTree(t, mem, "/"); want != got {
			t.Fatalf("step %d, operation %d on %s, %s: disk\n%s\nmemory\n%s", step, op, from, to,
				want, got)
		}
	}
}

func doRandom(fsys FS, root string, op int, from, to, text string) error {
	from, to = filepath.Join(root, from), filepath.Join(root, to)
	switch op {
	case 0, 1:
		return WriteFileAtomic(fsys, from, []byte(text))
	case 2:
		return fsys.Rename(from, to)
	case 3:
		return fsys.Remove(from)
	case 4:
		return fsys.MkdirAll(from)
	case 5:
		_, err := fsys.ReadFile(from)
		return err
	case 6:
		_, err := fsys.ReadDir(from)
		return err
	}
	if len(text) > 15 { // less frequent, so that files remain for later steps
		return fsys.RemoveAll(from)
	}
	return nil
}

// listTree returns a sorted list of the files with their sizes, and of the directories.
func listTree(t *testing.T, fsys FS, root string) string {
	t.Helper()
	var lines strings.Builder
	var list func(dir, indent string)
	list = func(dir, indent string) {
		entries, err := fsys.ReadDir(dir)
		must(t, err)
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if entry.IsDir() {
				fmt.Fprintf(&lines, "%s%s/\n", indent, entry.Name())
				list(path, indent+"  ")
				continue
			}
			content, err := fsys.ReadFile(path)
			must(t, err)
			fmt.Fprintf(&lines, "%s%s %d\n", indent, entry.Name(), len(content))
		}
	}
	list(root, "")
	return lines.String()
}

// TestDurableNamesMatchModel compares the names in two directories with a model of the current and
// the durable names.
func TestDurableNamesMatchModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	mem := NewMem()
	now, durable := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, dir := range []string{"p", "q"} {
		must(t, mem.MkdirAll(dir))
		now[dir], durable[dir] = map[string]bool{}, map[string]bool{}
	}
	must(t, mem.SyncDir("/"))
	dirs, names := []string{"p", "q"}, []string{"1", "2", "3"}
	for step := range 2000 {
		dir, name := dirs[random.IntN(2)], names[random.IntN(3)]
		toDir, toName := dirs[random.IntN(2)], names[random.IntN(3)]
		switch random.IntN(4) {
		case 0:
			must(t, put(t, mem, dir+"/"+name, "").Close())
			now[dir][name] = true
		case 1:
			if err := mem.Rename(dir+"/"+name, toDir+"/"+toName); err == nil {
				delete(now[dir], name)
				now[toDir][toName] = true
			}
		case 2:
			_ = mem.Remove(dir + "/" + name)
			delete(now[dir], name)
		case 3:
			must(t, mem.SyncDir(dir))
			durable[dir] = maps.Clone(now[dir])
		}
		for fsys, want := range map[*Mem]map[string]map[string]bool{mem: now,
			mem.CrashClone(): durable} {
			for _, dir := range dirs {
				if got := namesIn(t, fsys, dir); !slices.Equal(got,
					slices.Sorted(maps.Keys(want[dir]))) {
					t.Fatalf("step %d: %s contains %v, want %v (crashed: %v)", step, dir, got,
						want[dir], fsys != mem)
				}
			}
		}
	}
}

func namesIn(t *testing.T, fsys FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestPartialCrashesLeaveAtomicFilesWhole checks that after a partial crash, a file written by
// WriteFileAtomic is complete or missing, whichever unsynced changes survive.
func TestPartialCrashesLeaveAtomicFilesWhole(t *testing.T) {
	mem := NewMem()
	for i := range 20 {
		dir := fmt.Sprintf("p-%d", i%3)
		must(t, mem.MkdirAll(dir))
		must(t, WriteFileAtomic(mem, filepath.Join(dir, fmt.Sprint(i)), []byte("content")))
		if i%5 == 4 {
			must(t, mem.Rename(dir, dir+".deleted"))
			must(t, mem.RemoveAll(dir+".deleted"))
		}
	}
	for seed := range seed.Sequence(t, 50) {
		crashed := mem.CrashClonePartly(seed)
		for line := range strings.Lines(listTree(t, crashed, "/")) {
			name, size, isFile := strings.Cut(strings.TrimSpace(line), " ")
			if isFile && !strings.HasSuffix(name, TemporarySuffix) && size != "7" {
				t.Fatalf("seed %d: %s was written atomically, but has %s bytes, want 7", seed, name,
					size)
			}
		}
	}
}
