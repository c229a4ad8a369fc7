package segment

// Boundary returns the end position of the last batch that ends at or below limit, or 0 if the
// first batch ends above limit. A read that ends at this position returns only whole batches.
func (s *Segment) Boundary(limit int64) (int64, error) {
	v := s.view.Load()
	if limit >= v.size {
		return v.size, nil
	}
	start, err := s.startAt(v, limit)
	if err != nil {
		return 0, err
	}
	return s.firstFrom(v, start, func(h Header) bool { return h.end() > limit })
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
	// An index entry that does not point at a batch is damaged. Return 0 in this case: a walk over
	// all headers from the start of the file is slow but correct.
	if header, err := s.headerIn(v, int64(entry.Position)); err == nil && s.base+
		int64(entry.Relative) == header.LastOffset() {
		return header.Position, nil
	}
	return 0, nil
}
