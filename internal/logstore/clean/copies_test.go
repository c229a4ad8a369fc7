package clean

import (
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// writes notes which memory files are written from.
type writes struct {
	vfs.FS
	from *[][]byte
}

func (w writes) Create(name string) (vfs.File, error) {
	file, err := w.FS.Create(name)
	return notedFile{file, w.from}, err
}

type notedFile struct {
	vfs.File
	from *[][]byte
}

func (f notedFile) WriteAt(p []byte, offset int64) (int, error) {
	*f.from = append(*f.from, p)
	return f.File.WriteAt(p, offset)
}

// TestRebuiltBatchIsWrittenFromTheMemoryOfItsCodec: as on the way of a produced batch
// (docs/format/copies.md).
func TestRebuiltBatchIsWrittenFromTheMemoryOfItsCodec(t *testing.T) {
	var coded, written [][]byte
	l := newLog(t)
	l.fsys = writes{l.fsys, &written}
	l.job.Env.Compress = func(dst *compress.Chunks, src []byte, codec compress.Codec,
		level int) error {
		err := compress.To(dst, src, codec, level)
		coded = append(coded, dst.Pieces()...)
		return err
	}
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		l.batch(codec, record.Identity{ProducerID: -1}, "a=1", codec.String()+"=2")
	}
	l.put("a=3") // one record of each batch before is dead
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
			t.Errorf("%d bytes that a codec made are not written from where they lay", len(piece))
		}
	}
	if len(coded) != 4 {
		t.Errorf("%d pieces from codecs, want 4", len(coded))
	}
}
