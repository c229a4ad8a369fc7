package segment

import "fmt"

// Truncate cuts off every batch that holds an offset >= offset, and makes the segment writable. A
// read beside it may fail; it never gets a wrong batch below offset. It is what a follower needs
// whose end the new leader does not have; a log that only leads never calls it. What lies beside
// the segment and tells of its records (.keys, .dead) is the caller's to remove, before.
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
	if err := s.cutLocked(before, position, offset); err != nil {
		s.mu.broken = fmt.Errorf(
			"segment %d is unusable since it could not be truncated to offset %d: %w",
			s.base,
			offset,
			err,
		)
		return s.mu.broken
	}
	s.mu.sealed = false
	return nil
}

// cutLocked cuts the files at a batch's position. Indexes first: should the process stop in
// between, entries are missing, which is noticed, and none points behind the end.
func (s *Segment) cutLocked(before *view, position, offset int64) error {
	if position == before.size {
		return nil
	}
	after, err := s.viewBelow(before, position, offset)
	if err != nil {
		return err
	}
	s.view.Store(&after)
	s.mu.written, s.mu.indexed = true, true
	s.mu.unproven.to = min(s.mu.unproven.to, position)
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

// viewBelow returns the view of the batches before position, which is where the first batch that
// holds an offset >= offset is.
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
	if after.aborted, err = s.cutAbortedLocked(before.aborted, offset); err != nil {
		return after, err
	}
	err = s.loadTail(&after, position)
	return after, err
}
