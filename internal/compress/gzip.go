package compress

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
)

var (
	gzipWriters [10]sync.Pool // by level, 1 to 9: Reset cannot change a writer's level
	gzipReaders sync.Pool
)

// compressGzip writes one member. Whatever a failed call left in a writer or reader is gone with the next Reset, so both go back to
// the pool on every path.
func compressGzip(dst *Chunks, src []byte, level int) error {
	w, pooled := gzipWriters[level].Get().(*gzip.Writer)
	if pooled {
		w.Reset(dst)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(dst, level); err != nil {
			return fmt.Errorf("compress with gzip: %w", err)
		}
	}
	defer gzipWriters[level].Put(w)
	if _, err := w.Write(src); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	return nil
}

// decompressGzip reads all members of a multi-member stream, as RFC 1952 wants it.
func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	r, pooled := gzipReaders.Get().(*gzip.Reader)
	if !pooled {
		r = new(gzip.Reader)
	}
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return readLimited(dst, r, limit)
}
