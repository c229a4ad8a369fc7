package replica

// delayedFetch is a fetch that waits for records. Its positions need no lock: the purgatory never
// calls TryComplete twice at a time.
type delayedFetch struct {
	req       FetchRequest
	positions []position
	done      chan struct{}
}

// TryComplete implements timer.Operation. Only what came after the first read counts as new: were
// there an offset range without any record left in it, the fetch would complete with nothing, and
// its client ask again, without end.
func (d *delayedFetch) TryComplete() bool {
	total, enough := 0, false
	for i := range d.positions {
		bytes, now := d.positions[i].available(d.req)
		total += bytes
		enough = enough || now
	}
	if !enough && total < min(d.req.BytesMin, d.req.BytesMax) {
		return false
	}
	close(d.done)
	return true
}

// Expire implements timer.Operation.
func (d *delayedFetch) Expire() { close(d.done) }

// available returns how many bytes a read would give now; now is true if the fetch must not wait
// for more, because it could not get more, or would get an error. What it learns it keeps: a fetch
// of a thousand partitions looks again at each append to any of them, and must then read the index
// of that one, not of all that have grown since it came.
func (a *position) available(req FetchRequest) (bytes int, now bool) {
	if a.partition.serves(a.role) != nil {
		return 0, true
	}
	if a.held {
		return 0, false
	}
	if req.Replica != nil && a.role.brisk && a.partition.log.HighWatermark() > a.want.HighWater {
		return 0, true
	}
	limit := a.end(req)
	if limit <= max(a.limit, a.want.Offset) {
		return a.bytes, false
	}
	if req.BytesMin <= 1 {
		return 1, false // anything is enough: nothing need be read to know
	}
	data, err := a.partition.log.Read(a.want.Offset, limit, a.want.BytesMax, true)
	if err != nil {
		return 0, true
	}
	defer data.Release()
	a.limit, a.bytes = limit, data.Length
	return data.Length, data.More
}

// end is the end of what the asker may read now.
func (a *position) end(req FetchRequest) int64 {
	if req.Replica != nil {
		return a.partition.log.LogEnd()
	}
	return a.partition.limit(req.ReadCommitted)
}
