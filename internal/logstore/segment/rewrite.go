package segment

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
)

// rewriteBlockBytes is how much of a tail is rewritten at once.
const rewriteBlockBytes = 1 << 20

// unproven is a range of the data file that is in the page cache, and may not be on the disk
// whatever a sync says. When a sync fails, the kernel marks the pages clean that it could not
// write. A process that starts after that, on the same boot, reads them as if nothing had been, and
// syncs them with success, for there is nothing to write (ADR 0051). Only writing them again makes
// a sync tell of them.
type unproven struct{ from, to int64 }

// rewriteLocked writes the unproven range again. What it reads it writes to the same place, so a
// crash in between leaves each byte as the cache or as the disk had it. The file keeps its time. On
// a full disk the range stays unproven.
func (s *Segment) rewriteLocked() error {
	tail := s.mu.unproven
	if tail.from >= tail.to {
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
	s.mu.unproven = unproven{}
	s.mu.written = true
	return nil
}

// isFull tells an error that goes away when there is room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
