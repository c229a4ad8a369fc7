package segment

import (
	"errors"
	"fmt"
	"path/filepath"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// OpenDamaged opens a sealed segment whose data file Open has rejected with record.ErrCorrupt. The
// segment contains the batches before the first place at which the file is no sequence of batches,
// and claims the offsets up to next, the base offset of the following segment. The data file is not
// changed; the index files are rebuilt. Reads of the missing offsets must fail: see
// segmentlist.Handle.Damaged.
func OpenDamaged(fsys vfs.FS, dir string, base, next int64, cfg Config) (*Segment, error) {
	s := newSegment(fsys, dir, base, cfg)
	if err := s.openDamaged(next); err != nil {
		return nil, fmt.Errorf("open damaged segment %s: %w",
			filepath.Join(dir, Name(base, LogExtension, "")), errors.Join(err, s.closeFiles()))
	}
	return s, nil
}

func (s *Segment) openDamaged(next int64) error {
	size, err := s.openData()
	if err != nil {
		return err
	}
	v := emptyView(s.base)
	if err := s.count(&v, size); err == nil || !errors.Is(err, record.ErrCorrupt) {
		return errors.Join(errors.New("the data file is not damaged"), err)
	}
	if v.next > next {
		return fmt.Errorf("%w: it ends at %d, and the next segment begins at %d", record.ErrCorrupt,
			v.next, next)
	}
	if err := s.writeIndexes(v); err != nil {
		return err
	}
	v = *s.view.Load()
	v.next = next
	if err := s.openTxnIndex(&v); err != nil {
		return err
	}
	s.view.Store(&v)
	s.mu.named = !s.mu.indexed
	return s.loadModTimeLocked()
}
