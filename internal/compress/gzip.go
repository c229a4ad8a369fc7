package compress

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
)

var (
	gzipWriters [10]sync.Pool // by level, 1 to 9: Reset cannot change a writer's level
	gzipReaders sync.Pool     // of *gzipReader
)

// compressGzip writes one member. The writer returns to the pool even after an error, because its
// next Reset clears all state.
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
	// Writes to dst never fail; errors come from the library itself.
	if _, err := w.Write(src); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	return nil
}

// gzipReader is a pooled gzip reader with the bytes.Reader that it uses for input in memory.
type gzipReader struct {
	gzip.Reader
	memory bytes.Reader
}

// release returns the reader to the pool without its source. The source is the memory of a request
// or of a buffer, which will be reused, so the pool must not refer to it.
func (r *gzipReader) release() {
	r.memory.Reset(nil)
	_ = r.Reset(&r.memory) // always fails because there is no header; it only clears the source
	gzipReaders.Put(r)
}

// decompressGzip reads all members of a multi-member stream, as RFC 1952 requires.
func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	out, _, err := decompressMembers(dst, src, limit)
	return out, err
}

// decompressMembers is decompressGzip. It also returns the number of members.
func decompressMembers(dst, src []byte, limit int) (out []byte, members int, err error) {
	r, pooled := gzipReaders.Get().(*gzipReader)
	if !pooled {
		r = new(gzipReader)
	}
	defer r.release()
	r.memory.Reset(src) // implements io.ByteReader, so the library adds no buffer of its own
	out = dst
	for members == 0 || r.memory.Len() > 0 {
		if err := r.Reset(&r.memory); err != nil {
			return dst, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		r.Multistream(false)
		if out, err = readLimited(out, r, limit-(len(out)-len(dst))); err != nil {
			return dst, 0, err
		}
		members++
	}
	return out, members, nil
}
