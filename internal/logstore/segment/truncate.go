package segment

import "fmt"

// Truncate removes every batch that contains an offset >= offset, and makes the segment writable. A
// concurrent read may fail, but never returns a wrong batch below offset. Followers that diverge
// from their leader use Truncate. Before the call, the caller removes the .keys and .dead files,
// because they describe the segment's records.
func (s *Segment) Truncate(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil {
		return s.mu.broken
	}
	unpin, err := s.pinLocked()
	if err != nil {
		return fmt.Errorf("truncate segment %d: %w", s.base, err)
	}
	defer unpin()
	before := s.view.Load()
	position, err := s.position(before, offset)
	if err != nil {
		return fmt.Errorf("truncate segment %d: %w", s.base, err)
	}
	if err := s.truncateLocked(before, position, offset); err != nil {
		s.mu.broken = fmt.Errorf("segment %d is unusable since its truncation to offset %d failed: %w",
			s.base, offset, err)
		return s.mu.broken
	}
	s.mu.sealed = false
	return nil
}

// truncateLocked truncates the files to the position of a batch, the indexes before the data. If
// the process stops in between, the next start detects that index entries are missing, and no entry
// points beyond the end of the data.
func (s *Segment) truncateLocked(before *view, position, offset int64) error {
	if position == before.size {
		return nil
	}
	after, err := s.viewBelow(before, position, offset)
	if err != nil {
		return err
	}
	s.view.Store(&after)
	s.mu.written, s.mu.indexed = true, true
	s.mu.mustRewrite.to = min(s.mu.mustRewrite.to, position)
	if err := s.offsets.trim(after.offsets); err != nil {
		return err
	}
	if err := s.times.trim(after.times); err != nil {
		return err
	}
	if s.txns.file != nil {
		if err := s.txns.trim(after.aborted); err != nil {
			return err
		}
	}
	return s.data.Truncate(position)
}

// viewBelow returns the view of the batches below position. position must be the position of the
// first batch that contains an offset >= offset.
func (s *Segment) viewBelow(before *view, position, offset int64) (view, error) {
	after := emptyView(s.base)
	n, err := s.offsets.prefix(before.offsets,
		func(e OffsetEntry) bool { return int64(e.Position) < position })
	if err != nil {
		return after, err
	}
	if after.offsets, err = s.offsets.first(before.offsets, n); err != nil {
		return after, err
	}
	n, err = s.times.prefix(before.times,
		func(e TimeEntry) bool { return s.base+int64(e.Relative) < offset })
	if err != nil {
		return after, err
	}
	if after.times, err = s.times.first(before.times, n); err != nil {
		return after, err
	}
	if after.aborted, err = s.truncatedAborted(before.aborted, offset); err != nil {
		return after, err
	}
	err = s.loadTail(&after, position)
	return after, err
}
