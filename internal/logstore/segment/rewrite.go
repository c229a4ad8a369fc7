package segment

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
)

// rewriteBlockBytes is the size of the blocks that rewriteLocked copies.
const rewriteBlockBytes = 1 << 20

// byteRange is the range [from, to) of the data file.
type byteRange struct{ from, to int64 }

func (r byteRange) empty() bool { return r.from >= r.to }

// rewriteLocked rewrites the range mu.mustRewrite: it writes the bytes that it reads to the same
// positions. So if a crash interrupts it, each byte on the disk is either the old byte on the disk
// or the byte in the page cache. The file keeps its modification time. On a full disk
// mu.mustRewrite stays unchanged, and a later sync tries again.
func (s *Segment) rewriteLocked() error {
	tail := s.mu.mustRewrite
	if tail.empty() {
		return nil
	}
	info, err := s.fsys.Stat(s.pathLocked(LogExtension))
	if err != nil {
		return fmt.Errorf("rewrite the end of segment %d: %w", s.base, err)
	}
	block := make([]byte, min(rewriteBlockBytes, tail.to-tail.from))
	for position := tail.from; position < tail.to; {
		part := block[:min(int64(len(block)), tail.to-position)]
		n, err := s.data.ReadAt(part, position)
		if n < len(part) {
			return fmt.Errorf("rewrite the end of segment %d: %w", s.base,
				noEOF(errors.Join(err, io.ErrUnexpectedEOF)))
		}
		if _, err := s.data.WriteAt(part, position); err != nil {
			return fmt.Errorf("rewrite the end of segment %d: %w", s.base, err)
		}
		position += int64(n)
	}
	if err := s.fsys.Chtimes(filepath.Join(s.dir, Name(s.base, LogExtension, s.mu.suffix)),
		info.ModTime()); err != nil {
		return fmt.Errorf("rewrite the end of segment %d: %w", s.base, err)
	}
	s.mu.mustRewrite = byteRange{}
	s.mu.written = true
	return nil
}

// isFull reports whether err means that the disk is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
