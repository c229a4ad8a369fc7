package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestOtherFormatsAreNamed checks that verify and dump name the file, the offset and the format of
// records that this program cannot read, instead of reporting a damaged batch.
func TestOtherFormatsAreNamed(t *testing.T) {
	const path = "/p-0/00000000000000000005.log"
	first := batchOf(t, compress.None, 5, record.Record{Key: []byte("k"), Timestamp: 9})
	for want, content := range map[string][]byte{
		"offset 5 at position 0 has format v0": storetest.OldMessages(0, 5, 3),
		"offset 6 at position 69 has format v1": slices.Concat(first,
			storetest.OldMessages(1, 6, 3)),
	} {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("/p-0"))
		must(t, vfs.WriteFileAtomic(mem, path, content))
		problems, out := verify(t, mem, "/p-0")
		if problems == 0 || !strings.Contains(out, path+": position ") ||
			!strings.Contains(out, want) || strings.Contains(out, "corrupt") {
			t.Errorf("%d problems, want %q:\n%s", problems, want, out)
		}
		var dumped bytes.Buffer
		err := Dump(mem, []string{"/p-0"}, DumpOptions{}, &dumped)
		if err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("dump: error %v, want %q", err, want)
		}
	}
}
