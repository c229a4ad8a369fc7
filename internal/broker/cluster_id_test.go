package broker

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

func TestClusterIDRoundTrips(t *testing.T) {
	mem := vfs.NewMem()
	if id, err := readClusterID(mem, "/"); id != "" || err != nil {
		t.Errorf("a new directory: got cluster id %q, error %v", id, err)
	}
	for _, want := range []string{"x", "gVGQL86KTaWgise7z8qKqw",
		"6f1c3f0e-0d1b-4d3e-9a51-0a4c7a0f8a11", strings.Repeat("a", 64)} {
		if err := writeClusterID(mem, "/", want); err != nil {
			t.Fatal(err)
		}
		if id, err := readClusterID(mem, "/"); id != want || err != nil {
			t.Errorf("%q was read as %q, error %v", want, id, err)
		}
	}
	for _, bad := range []string{"", "a b", "a\nb", "ä", "\x00", strings.Repeat("a", 65)} {
		if err := writeClusterID(mem, "/", bad); err == nil {
			t.Errorf("%q was written", bad)
		}
		if err := vfs.WriteFileAtomic(mem, "/"+clusterIDFile, []byte(bad+"\n")); err != nil {
			t.Fatal(err)
		}
		if id, err := readClusterID(mem, "/"); err == nil {
			t.Errorf("%q was read as %q", bad, id)
		}
	}
}

func FuzzReadClusterID(f *testing.F) {
	f.Add([]byte("gVGQL86KTaWgise7z8qKqw\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		mem := vfs.NewMem()
		if err := vfs.WriteFileAtomic(mem, "/"+clusterIDFile, content); err != nil {
			t.Fatal(err)
		}
		if id, err := readClusterID(mem, "/"); err == nil && id+"\n" != string(content) {
			t.Errorf("%q was read as %q", content, id)
		}
	})
}
