package vfs

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestUncacheDropsSyncedPages(t *testing.T) {
	const size = 8 << 20
	fsys, name := OS{}, filepath.Join(t.TempDir(), "file")
	file := put(t, fsys, name, strings.Repeat("x", size))
	must(t, file.Sync())
	before, ok := Cached(file, 0, size)
	if !ok || before == 0 {
		t.Skipf("the page cache is not observable, or nothing is cached (%d bytes, %t)",
			before, ok)
	}
	Uncache(file, 0, size/2)
	first, _ := Cached(file, 0, size/2)
	second, _ := Cached(file, size/2, size/2)
	if first != 0 {
		t.Skipf("the filesystem kept %d bytes of the half that Uncache should drop", first)
	}
	if second != size/2 {
		t.Errorf("%d bytes of the second half are cached, want all %d", second, size/2)
	}
	wantContent(t, fsys, name, strings.Repeat("x", size))
}

func TestUncacheIsHarmlessWithoutACache(t *testing.T) {
	file := put(t, NewMem(), "/file", "content")
	if _, ok := Cached(file, 0, 7); ok {
		t.Error("Cached reports a page cache for a file of Mem")
	}
	Uncache(file, 0, 7)
	set := NewHandles(OS{}, 1)
	name := filepath.Join(t.TempDir(), "file")
	put(t, OS{}, name, "content")
	closed := set.Handle(name)
	must(t, closed.Close())
	if _, ok := Cached(closed, 0, 7); ok {
		t.Error("Cached reports a page cache for a closed file")
	}
	Uncache(closed, 0, 7)
}
