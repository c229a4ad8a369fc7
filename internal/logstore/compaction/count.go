package compaction

// CountRecords returns the number of records of the log that are not deleted, including tombstones,
// superseded records and transaction markers. It reads no file. exact is false if the records of
// some segment were not counted since this process started, because the segment has no key sidecar
// and this process has not appended the whole segment. For such a segment, the result includes at
// most the number of the segment's offsets.
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

// LoadCounts reads the headers of key sidecars that are not known yet, such as sidecars that a pass
// has written. CountRecords then counts their segments exactly. It does nothing while a sidecar is
// being built, because the build afterwards reads the unknown headers too.
func (c *Compaction) LoadCounts() {
	c.Sidecars.LoadStates()
}
