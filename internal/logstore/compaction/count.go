package compaction

// CountRecords returns the number of records of the log that are not deleted, with tombstones,
// superseded records and transaction markers. It reads no file. exact is false if some segment was
// not counted since this process started, because it has no key sidecar and the process has not
// appended all of it. The number of such a segment is at most that of its offsets.
func (c *Compaction) CountRecords() (records int64, exact bool) {
	list := c.env.List.Acquire()
	if list == nil {
		return 0, false
	}
	defer list.Release()
	start := c.env.Offsets.LogStart()
	exact = true
	for i, h := range list.Handles {
		if i+1 < len(list.Handles) && list.Handles[i+1].Base() <= start {
			continue // retention will delete the segment
		}
		n, counted := h.CountRecords()
		records += n
		exact = exact && counted && h.Base() >= start
	}
	return records, exact
}

// LoadCounts reads the headers of the key sidecars that are not known yet, such as those that a
// pass has written, so that CountRecords counts their segments. It does nothing while a sidecar is
// built; the build continues with those that are not known.
func (c *Compaction) LoadCounts() {
	c.Sidecars.LoadStates()
}
