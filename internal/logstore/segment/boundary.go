package segment

// Boundary returns the last position at or below position at which a batch begins or the data ends.
// A read that ends at such a position returns whole batches only.
func (s *Segment) Boundary(position int64) (int64, error) {
	v := s.view.Load()
	if position >= v.size {
		return v.size, nil
	}
	start, err := s.startAt(v, position)
	if err != nil {
		return 0, err
	}
	return s.firstFrom(v, start, func(h Header) bool { return h.end() > position })
}

// startAt returns the position of the last indexed batch that begins at or below position, or 0.
func (s *Segment) startAt(v *view, position int64) (int64, error) {
	n, err := s.offsets.prefix(v.offsets,
		func(e OffsetEntry) bool { return int64(e.Position) <= position })
	if err != nil || n == 0 {
		return 0, err
	}
	entry, err := s.offsets.at(v.offsets, n-1)
	if err != nil {
		return 0, err
	}
	// As in startBelow: an entry that does not point at a batch is damaged, and a walk from 0 is
	// slow but correct.
	if header, err := s.headerIn(v, int64(entry.Position)); err == nil && s.base+
		int64(entry.Relative) == header.LastOffset() {
		return header.Position, nil
	}
	return 0, nil
}
