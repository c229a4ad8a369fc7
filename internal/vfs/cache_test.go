package vfs

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestUncacheDropsWhatIsOnTheDisk(t *testing.T) {
	const size = 8 << 20
	fsys, name := OS{}, filepath.Join(t.TempDir(), "file")
	file := put(t, fsys, name, strings.Repeat("x", size))
	must(t, file.Sync())
	before, ok := Cached(file, 0, size)
	if !ok || before == 0 {
		t.Skipf("this system does not tell what it caches, or caches nothing here (%d bytes, %t)",
			before, ok)
	}
	Uncache(file, 0, size/2)
	first, _ := Cached(file, 0, size/2)
	second, _ := Cached(file, size/2, size/2)
	if first != 0 {
		t.Skipf("this filesystem keeps its pages: %d bytes of the half that was dropped", first)
	}
	if second != size/2 {
		t.Errorf("%d bytes of the other half are cached, want all", second)
	}
	wantContent(t, fsys, name, strings.Repeat("x", size))
}

func TestUncacheIsHarmlessWithoutACache(t *testing.T) {
	file := put(t, NewMem(), "/file", "content")
	if _, ok := Cached(file, 0, 7); ok {
		t.Error("a file in memory has a page cache")
	}
	Uncache(file, 0, 7)
	set := NewHandles(OS{}, 1)
	name := filepath.Join(t.TempDir(), "file")
	put(t, OS{}, name, "content")
	gone := set.Handle(name)
	must(t, gone.Close())
	if _, ok := Cached(gone, 0, 7); ok {
		t.Error("a file that is closed has a page cache")
	}
	Uncache(gone, 0, 7)
}
