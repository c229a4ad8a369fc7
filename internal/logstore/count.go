package logstore

import (
	"sync/atomic"

	"heartwood.dev/heartwood/internal/record"
)

// appendedCount counts the records that this process has appended to a segment, if it has appended
// all of them. Log.mu guards the writes; anybody may read.
//
// Invariant: records is the number of records in the first bytes bytes of the segment; bytes is -1
// once something else was appended.
type appendedCount struct{ records, bytes atomic.Int64 }

// addLocked adds a batch that was just appended; size is the size of the segment with it. It gives
// up if the batches before it were not counted, because an earlier process appended them or the
// segment was truncated. The caller holds Log.mu.
func (c *appendedCount) addLocked(size int64, b record.Parts) {
	if size-int64(b.SizeBytes()) != c.bytes.Load() {
		c.bytes.Store(-1)
		return
	}
	c.records.Add(int64(b.Count()))
	c.bytes.Store(size)
}

// count returns the number of records of a segment that it has counted completely.
func (c *appendedCount) count(size int64) (records int64, ok bool) {
	for range 3 { // a batch may be appended between the loads
		records, bytes := c.records.Load(), c.bytes.Load()
		if bytes == size && records == c.records.Load() {
			return records, true
		}
	}
	return 0, false
}

// CountRecords returns the number of records of the log that are not deleted, with tombstones,
// superseded records and transaction markers. It reads no file. exact is false if some segment was
// not counted since this process started, because it has no key sidecar and the process has not
// appended all of it. The number of such a segment is at most that of its offsets.
func (c *Compaction) CountRecords() (records int64, exact bool) {
	list := c.log.acquire()
	if list == nil {
		return 0, false
	}
	defer list.release()
	start := c.log.logStart.Load()
	exact = true
	for i, h := range list.handles {
		if i+1 < len(list.handles) && list.handles[i+1].Base() <= start {
			continue // retention will delete the segment
		}
		n, counted := h.countRecords()
		records += n
		exact = exact && counted && h.Base() >= start
	}
	return records, exact
}

// LoadCounts reads the headers of the key sidecars that are not known yet, such as those that a
// pass has written, so that CountRecords counts their segments. It does nothing while a sidecar is
// built; the build continues with those that are not known.
func (c *Compaction) LoadCounts() {
	select {
	case c.sidecars.building <- struct{}{}:
		defer c.sidecars.unlock()
	default:
		return
	}
	list := c.log.acquire()
	if list == nil {
		return
	}
	defer list.release()
	for _, h := range list.handles[:len(list.handles)-1] {
		if h.sidecarState() == nil && c.sidecars.salt.Load() != nil {
			c.sidecars.load(h)
		}
	}
}

// countRecords returns the number of records in a segment, and whether they were counted.
func (h *handle) countRecords() (records int64, counted bool) {
	size, span := h.SizeBytes(), h.NextOffset()-h.Base()
	if n, ok := h.appended.count(size); ok {
		return n, true
	}
	state := h.sidecarState()
	switch {
	case state != nil && state.counted:
		return int64(state.records), true
	case state != nil && state.records > 0:
		return min(span, int64(state.records)), false
	}
	return span, false
}
