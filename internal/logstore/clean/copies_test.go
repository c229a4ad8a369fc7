package clean

import (
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// writeRecorder is a file system that records the memory that files are written from.
type writeRecorder struct {
	vfs.FS
	from *[][]byte
}

func (w writeRecorder) Create(name string) (vfs.File, error) {
	file, err := w.FS.Create(name)
	return recordedFile{file, w.from}, err
}

type recordedFile struct {
	vfs.File
	from *[][]byte
}

func (f recordedFile) WriteAt(p []byte, offset int64) (int, error) {
	*f.from = append(*f.from, p)
	return f.File.WriteAt(p, offset)
}

// A compressed batch is written to the file from the codec's memory, without another copy, as on
// the produce path (docs/format/copies.md).
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
	l.put("a=3") // supersedes one record of each batch
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
