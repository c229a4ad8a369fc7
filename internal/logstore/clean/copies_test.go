package clean

import (
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// writeRecorder is a file system that records the buffers passed to WriteAt.
type writeRecorder struct {
	vfs.FS
	buffers *[][]byte
}

func (w writeRecorder) Create(name string) (vfs.File, error) {
	file, err := w.FS.Create(name)
	return recordedFile{file, w.buffers}, err
}

type recordedFile struct {
	vfs.File
	buffers *[][]byte
}

func (f recordedFile) WriteAt(p []byte, offset int64) (int, error) {
	*f.buffers = append(*f.buffers, p)
	return f.File.WriteAt(p, offset)
}

// TestRebuiltBatchIsWrittenFromTheMemoryOfItsCodec checks that a rewrite passes the codec's output
// buffers to WriteAt without copying them, like the produce path (docs/internals/format/copies.md).
func TestRebuiltBatchIsWrittenFromTheMemoryOfItsCodec(t *testing.T) {
	var coded, written [][]byte
	l := newLog(t)
	l.fsys = writeRecorder{l.fsys, &written}
	l.job.Env.Compress = func(dst *compress.Chunks, src []byte, codec compress.Codec,
		level int) error {
		err := compress.To(dst, src, codec, level)
		coded = append(coded, dst.Pieces()...)
		return err
	}
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		l.batch(codec, record.Identity{ProducerID: -1}, "a=1", codec.String()+"=2")
	}
	l.put("a=3") // supersedes one record in each batch
	l.roll()
	written = nil
	if stats := l.pass(); stats.RecordsRemoved != 4 {
		t.Fatalf("%d records removed, want 4", stats.RecordsRemoved)
	}
	for _, piece := range coded {
		found := false
		for _, w := range written {
			found = found || unsafe.SliceData(w) == unsafe.SliceData(piece) && len(w) == len(piece)
		}
		if !found {
			t.Errorf("%d compressed bytes were copied before they were written", len(piece))
		}
	}
	if len(coded) != 4 {
		t.Errorf("codecs returned %d pieces, want 4", len(coded))
	}
}
