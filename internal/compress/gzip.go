package compress

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
)

var (
	gzipWriters [10]sync.Pool // pools by level, 1 to 9, because Reset cannot change a writer's level
	gzipReaders sync.Pool     // elements are *gzipReader
)

// compressGzip writes one gzip member. It returns the writer to the pool even after an error,
// because the writer's next Reset clears all state.
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
	// Writes to dst never fail, so an error comes from the gzip library itself.
	if _, err := w.Write(src); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress with gzip: %w", err)
	}
	return nil
}

// gzipReader is a pooled gzip reader and the bytes.Reader from which it reads input in memory.
type gzipReader struct {
	gzip.Reader
	memory bytes.Reader
}

// release clears the reader's source and returns the reader to the pool. The source is the memory
// of a request or of a buffer, which will be reused, so the pool must not refer to it.
func (r *gzipReader) release() {
	r.memory.Reset(nil)
	_ = r.Reset(&r.memory) // clears the source; Reset always fails here, because there is no header
	gzipReaders.Put(r)
}

// decompressGzip reads all members of a multi-member stream, as RFC 1952 requires.
func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	out, _, err := decompressMembers(dst, src, limit)
	return out, err
}

// decompressMembers is like decompressGzip, but also returns the number of members.
func decompressMembers(dst, src []byte, limit int) (out []byte, members int, err error) {
	r, pooled := gzipReaders.Get().(*gzipReader)
	if !pooled {
		r = new(gzipReader)
	}
	defer r.release()
	// The type bytes.Reader implements io.ByteReader, so the library adds no buffer of its own.
	r.memory.Reset(src)
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
