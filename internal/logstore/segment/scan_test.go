package segment

import (
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// readCounter counts the bytes that are read from its files.
type readCounter struct {
	vfs.FS
	bytes int64
}

func (c *readCounter) Create(name string) (vfs.File, error) {
	file, err := c.FS.Create(name)
	return countedFile{file, c}, err
}

type countedFile struct {
	vfs.File
	readCounter *readCounter
}

func (f countedFile) ReadAt(p []byte, position int64) (int, error) {
	n, err := f.File.ReadAt(p, position)
	f.readCounter.bytes += int64(n)
	return n, err
}

// TestScanReadsEachByteOnce scans batches many of which end in the middle of a block. A scan must
// not read the beginning of such a batch a second time.
func TestScanReadsEachByteOnce(t *testing.T) {
	counter := &readCounter{FS: vfs.NewMem()}
	s, err := Create(counter, "/", 0, "", Config{})
	must(t, err)
	var want []record.Batch
	for i, size := range []int{scanBlockBytes / 2, scanBlockBytes/2 + 700, 10, 3 * scanBlockBytes,
		20, 20, scanBlockBytes - 60, scanBlockBytes - 61, 30, scanBlockBytes * 2 / 3} {
		b := batchOf(t, int64(i), 1, 1000, size)
		must(t, s.Append(b))
		want = append(want, b)
	}
	counter.bytes = 0
	must(t, s.Scan(0, func(_ int64, b record.Batch) error {
		if string(b) != string(want[0]) {
			t.Errorf("batch %d differs", b.BaseOffset())
		}
		want = want[1:]
		return nil
	}))
	if len(want) > 0 {
		t.Errorf("%d batches were not visited", len(want))
	}
	if counter.bytes != s.SizeBytes() {
		t.Errorf("%d bytes were read, want %d", counter.bytes, s.SizeBytes())
	}
	must(t, s.Close())
}
