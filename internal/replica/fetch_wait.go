package replica

// delayedFetch is a fetch that waits for records. Its positions need no lock, because the purgatory
// never calls TryComplete concurrently for the same fetch.
type delayedFetch struct {
	req       FetchRequest
	positions []position
	done      chan struct{}
}

// TryComplete implements timer.Operation. Only bytes that arrived after the first read can complete
// the fetch. Otherwise a fetch of an offset range whose records were all cleaned away would
// complete with an empty response, and the client would at once send the same fetch again.
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

// available returns how many bytes a read of the partition would return at present. now is true if
// the fetch must not wait longer, because it would receive no further records or would fail.
// available caches its result in the position. So if a fetch of a thousand partitions is evaluated
// after an append to one of them, only that partition's index is read.
func (a *position) available(req FetchRequest) (bytes int, now bool) {
	if a.partition.checkStillServes(a.role) != nil {
		return 0, true
	}
	if a.throttled {
		return 0, false
	}
	if req.Replica != nil && a.role.pushHighWatermark &&
		a.partition.log.HighWatermark() > a.request.HighWater {
		return 0, true
	}
	limit := a.partition.limit(req.ReadCommitted)
	if req.Replica != nil {
		limit = a.partition.log.LogEnd()
	}
	if limit <= max(a.limit, a.request.Offset) {
		return a.bytes, false
	}
	if req.BytesMin <= 1 {
		return 1, false // a single record suffices, so no index has to be read
	}
	data, err := a.partition.log.Read(a.request.Offset, limit, a.request.BytesMax, true)
	if err != nil {
		return 0, true
	}
	defer data.Release()
	a.limit, a.bytes = limit, data.Length
	return data.Length, data.More
}
