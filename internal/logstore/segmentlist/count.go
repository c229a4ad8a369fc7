package segmentlist

import (
	"sync/atomic"

	"heartwood.dev/heartwood/internal/record"
)

// appendedCount counts the records in a segment if this process has appended all of them. The lock
// of the log guards the writes; readers acquire no lock.
//
// Invariant: records is the number of records in the first bytes bytes of the segment. bytes is -1
// if something else was also appended.
type appendedCount struct{ records, bytes atomic.Int64 }

// AddLocked adds a batch that was just appended; size is the size of the segment including the
// batch. It stops counting if earlier batches were not counted, either because an earlier process
// appended them or because the segment was truncated. The caller holds the lock of the log.
func (c *appendedCount) AddLocked(size int64, b record.Parts) {
	if size-int64(b.SizeBytes()) != c.bytes.Load() {
		c.bytes.Store(-1)
		return
	}
	c.records.Add(int64(b.Count()))
	c.bytes.Store(size)
}

// count returns the number of records in a segment, if all of them were counted.
func (c *appendedCount) count(size int64) (records int64, ok bool) {
	for range 3 { // retry, because a batch may be appended between the loads
		records, bytes := c.records.Load(), c.bytes.Load()
		if bytes == size && records == c.records.Load() {
			return records, true
		}
	}
	return 0, false
}

// CountRecords returns the number of records in a segment. counted is true if they were counted,
// not estimated.
func (h *Handle) CountRecords() (records int64, counted bool) {
	size, span := h.SizeBytes(), h.NextOffset()-h.Base()
	if n, ok := h.Appended.count(size); ok {
		return n, true
	}
	state := h.SidecarState()
	switch {
	case state != nil && state.Counted:
		return int64(state.Records), true
	case state != nil && state.Records > 0:
		return min(span, int64(state.Records)), false
	}
	return span, false
}
