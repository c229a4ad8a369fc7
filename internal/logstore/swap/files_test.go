package swap

import (
	"path/filepath"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/vfs"
)

const dir = "/data/tickets-0"

func newDir(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	return mem
}

func write(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, name), []byte("x")); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, fsys vfs.FS) (all []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	slices.Sort(all)
	return all
}

// TestRepairRemovesTemporaryFiles checks the temporary files that a crash during
// vfs.WriteFileAtomic leaves. A start removes the temporary file of each file that a broker writes
// into a log's directory, but no other file.
func TestRepairRemovesTemporaryFiles(t *testing.T) {
	mem := newDir(t)
	small := []string{datadir.PartitionFile, datadir.PolicyFile, datadir.RetainedFile,
		datadir.AssignmentFile, datadir.CopySourceFile, datadir.CopyGapFile, datadir.LossFile,
		checkpoint.EpochsFile, keys.SaltFile}
	want := append(slices.Clone(small), "notes.txt"+vfs.TemporarySuffix)
	for _, name := range small {
		write(t, mem, name)
		write(t, mem, name+vfs.TemporarySuffix)
	}
	write(t, mem, "notes.txt"+vfs.TemporarySuffix) // belongs to another program
	write(t, mem, "00000000000000000010.snapshot"+vfs.TemporarySuffix)
	if _, err := Repair(mem, dir); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := names(t, mem); !slices.Equal(got, want) {
		t.Errorf("the directory contains %q, want %q", got, want)
	}
}

// TestListSortsDataFilesFirst checks that files are renamed and removed in the order of the list.
func TestListSortsDataFilesFirst(t *testing.T) {
	mem := newDir(t)
	for _, name := range []string{"00000000000000000020.index", "00000000000000000020.log",
		"00000000000000000003.timeindex", "00000000000000000003.index", "00000000000000000003.log",
		"00000000000000000003.index.deleted", "partition.metadata", "3.log"} {
		write(t, mem, name)
	}
	files, err := List(mem, dir)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(-1)
	for i, f := range files {
		first := f.Base != last
		if f.Base < last || first && !f.IsLog() {
			t.Errorf("%d. file is %s", i, f.Name)
		}
		last = f.Base
	}
	if len(files) != 6 || !slices.Equal(BasesOf(files), []int64{3, 20}) {
		t.Errorf("%d files, base offsets %v", len(files), BasesOf(files))
	}
}
