package segment

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/vfs"
)

// Derive returns the contents that the offset index and the time index of a sealed segment should
// have, computed from the batch headers in the data file. It changes no file. The caller has
// verified the checksums of the batches.
func Derive(fsys vfs.FS, dir string, base int64, cfg Config) (offsets, times []byte, err error) {
	s := newSegment(fsys, dir, base, cfg)
	size, err := s.openData()
	if err != nil {
		return nil, nil, fmt.Errorf("derive the indexes of segment %d: %w", base, err)
	}
	v := emptyView(base)
	if err := errors.Join(s.count(&v, size), s.data.Close()); err != nil {
		return nil, nil, fmt.Errorf("derive the indexes of segment %d: %w", base, err)
	}
	v.addTime()
	return s.offsets.encode(v.offsets.tail), s.times.encode(v.times.tail), nil
}

// EncodeAborted returns the content of a transaction index with the given entries.
func EncodeAborted(all []AbortedTxn) []byte { return txnIndex(nil).encode(all) }

// AllWritten reports whether all index entries of the segment are in its files, and none only in
// memory.
func (s *Segment) AllWritten() bool { return s.view.Load().unwritten() == 0 }
