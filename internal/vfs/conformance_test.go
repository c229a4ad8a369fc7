package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// forEachFS runs a test on every filesystem, because the in-memory filesystem and the wrappers must
// behave like the real filesystem.
func forEachFS(t *testing.T, run func(t *testing.T, fsys FS, dir string)) {
	t.Run("OS", func(t *testing.T) { run(t, OS{}, t.TempDir()) })
	t.Run("Mem", func(t *testing.T) { run(t, NewMem(), "/") })
	t.Run("FaultWithoutRules", func(t *testing.T) { run(t, NewFault(NewMem()), "/") })
	t.Run("Trace", func(t *testing.T) { run(t, NewTrace(NewMem(), "/"), "/") })
}

func put(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	file, err := fsys.Create(name)
	must(t, err)
	_, err = file.WriteAt([]byte(content), 0)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantContent(t *testing.T, fsys FS, name, want string) {
	t.Helper()
	got, err := fsys.ReadFile(name)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s contains %q, want %q", name, got, want)
	}
}

func wantMissing(t *testing.T, fsys FS, name string) {
	t.Helper()
	if _, err := fsys.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat %s: %v, want fs.ErrNotExist", name, err)
	}
}

func TestFileReturnsWrittenContent(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		file := put(t, fsys, name, "0123456789")
		if _, err := file.WriteAt([]byte("xy"), 13); err != nil {
			t.Fatal(err)
		}
		wantContent(t, fsys, name, "0123456789\x00\x00\x00xy")
		must(t, file.Truncate(4))
		must(t, file.Truncate(6))
		wantContent(t, fsys, name, "0123\x00\x00")
		if size, err := file.Size(); err != nil || size != 6 {
			t.Errorf("size is %d, %v; want 6", size, err)
		}
		must(t, file.Sync())
		if file.Name() != name {
			t.Errorf("name is %s, want %s", file.Name(), name)
		}
	})
}

func TestReadAtEndIsEOF(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		file := put(t, fsys, filepath.Join(dir, "a"), "0123")
		for _, c := range []struct {
			offset int64
			n      int
			err    error
		}{{0, 3, nil}, {2, 2, io.EOF}, {4, 0, io.EOF}, {9, 0, io.EOF}} {
			n, err := file.ReadAt(make([]byte, 3), c.offset)
			if n != c.n || !errors.Is(err, c.err) {
				t.Errorf("ReadAt(%d) = %d, %v; want %d, %v", c.offset, n, err, c.n, c.err)
			}
		}
		if _, err := file.ReadAt(make([]byte, 1), -1); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("ReadAt(-1) = %v, want an error other than EOF", err)
		}
	})
}

func TestOpenModes(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		for _, open := range []func(string) (File, error){fsys.Open, fsys.OpenReadWrite} {
			if _, err := open(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open of a missing file: %v, want fs.ErrNotExist", err)
			}
		}
		if _, err := fsys.Create(filepath.Join(dir, "missing", "a")); !errors.Is(err,
			fs.ErrNotExist) {
			t.Errorf("create in a missing directory: %v, want fs.ErrNotExist", err)
		}
		put(t, fsys, name, "old")
		reading, err := fsys.Open(name)
		must(t, err)
		if _, err := reading.WriteAt([]byte("x"), 0); err == nil {
			t.Error("write to a file that was opened for reading succeeded")
		}
		must(t, reading.Close())
		if _, err := reading.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after close: %v, want fs.ErrClosed", err)
		}
		writing, err := fsys.OpenReadWrite(name)
		must(t, err)
		_, err = writing.WriteAt([]byte("n"), 0)
		must(t, err)
		wantContent(t, fsys, name, "nld")
		must(t, writing.Close())
		put(t, fsys, name, "")
		wantContent(t, fsys, name, "")
	})
}

func TestRenameReplacesAndOpenFilesStayReadable(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		put(t, fsys, a, "new")
		old := put(t, fsys, b, "old")
		must(t, fsys.Rename(a, b))
		wantMissing(t, fsys, a)
		wantContent(t, fsys, b, "new")
		content := make([]byte, 3)
		if _, err := old.ReadAt(content, 0); err != nil || string(content) != "old" {
			t.Errorf("the replaced open file reads %q, %v", content, err)
		}
		must(t, fsys.Remove(b))
		wantMissing(t, fsys, b)
		if err := fsys.Rename(a, b); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("rename of a missing file: %v, want fs.ErrNotExist", err)
		}
		if err := fsys.Remove(b); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("remove of a missing file: %v, want fs.ErrNotExist", err)
		}
	})
}

func TestDirectories(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		deep := filepath.Join(dir, "x", "y")
		must(t, fsys.MkdirAll(deep))
		must(t, fsys.MkdirAll(deep))
		put(t, fsys, filepath.Join(dir, "x", "b"), "bb")
		put(t, fsys, filepath.Join(dir, "x", "a"), "")
		entries, err := fsys.ReadDir(filepath.Join(dir, "x"))
		must(t, err)
		var names string
		for _, entry := range entries {
			names += entry.Name() + " "
		}
		if names != "a b y " || !entries[2].IsDir() || entries[1].IsDir() {
			t.Errorf("entries are %s", names)
		}
		if info, err := entries[1].Info(); err != nil || info.Size() != 2 {
			t.Errorf("info of b: %v, %v", info, err)
		}
		must(t, fsys.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z")))
		wantContent(t, fsys, filepath.Join(dir, "z", "b"), "bb")
		if err := fsys.Remove(filepath.Join(dir, "z")); err == nil {
			t.Error("removal of a directory with files succeeded")
		}
		must(t, fsys.RemoveAll(filepath.Join(dir, "z")))
		must(t, fsys.RemoveAll(filepath.Join(dir, "z")))
		wantMissing(t, fsys, filepath.Join(dir, "z"))
		if _, err := fsys.ReadDir(deep); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read of a missing directory: %v, want fs.ErrNotExist", err)
		}
		must(t, fsys.SyncDir(dir))
		if err := fsys.MkdirAll(filepath.Join(put(t, fsys, filepath.Join(dir, "f"), "").Name(),
			"sub")); err == nil {
			t.Error("creating a directory below a file succeeded")
		}
	})
}

func TestChtimesAndStat(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		put(t, fsys, name, "abc")
		want := time.UnixMilli(1_600_000_000_123)
		must(t, fsys.Chtimes(name, want))
		info, err := fsys.Stat(name)
		must(t, err)
		if !info.ModTime().Equal(want) || info.Size() != 3 || info.Name() != "a" ||
			!info.Mode().IsRegular() {
			t.Errorf("stat: %v %d %s %v", info.ModTime(), info.Size(), info.Name(), info.Mode())
		}
	})
}

func TestLockIsExclusiveUntilClosed(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, ".lock")
		lock, err := fsys.Lock(name)
		must(t, err)
		if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("second lock: %v, want ErrLocked", err)
		}
		must(t, lock.Close())
		lock, err = fsys.Lock(name)
		must(t, err)
		must(t, lock.Close())
	})
}

func TestFreeIsPositive(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		if free, err := fsys.Free(dir); err != nil || free == 0 {
			t.Errorf("Free returned %d, %v; want a positive number", free, err)
		}
		if _, err := fsys.Free(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Free of a missing directory: %v, want fs.ErrNotExist", err)
		}
	})
}

func TestReadsRunBesideOneWriter(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		file := put(t, fsys, filepath.Join(dir, "a"), "")
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for range 200 {
					content := make([]byte, 64)
					n, err := file.ReadAt(content, 0)
					if err != nil && !errors.Is(err, io.EOF) ||
						len(bytes.Trim(content[:n], "x")) > 0 {
						t.Errorf("read %q, %v", content[:n], err)
						return
					}
				}
			})
		}
		for i := range 200 {
			_, err := file.WriteAt([]byte("x"), int64(i))
			must(t, err)
		}
		readers.Wait()
	})
}

func TestOSFileReturnsOnlyFilesOfOS(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	if file, ok := OSFile(put(t, OS{}, name, "")); !ok || file.Name() != name {
		t.Error("OSFile did not return the *os.File of OS")
	}
	if _, ok := OSFile(put(t, NewFault(OS{}), name, "")); ok {
		t.Error("OSFile bypassed Fault")
	}
	if _, ok := OSFile(put(t, NewMem(), "a", "")); ok {
		t.Error("OSFile returned a file for Mem")
	}
}
