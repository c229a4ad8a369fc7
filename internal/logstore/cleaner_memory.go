package logstore

// passMemoryBytesMin is the least that is given to a pass beside others; one that runs alone gets
// what there is. Less makes a pass slower, and never fail.
const passMemoryBytesMin = 64 << 10

// makerMemoryBytes is what is set aside for the making of sidecars and estimates, one at a time.
func (o CleanerOptions) makerMemoryBytes() int64 { return min(sidecarMemoryBytes, o.MemoryBytes/4) }

// passesMemoryBytes is what all passes together may hold.
func (o CleanerOptions) passesMemoryBytes() int64 { return o.MemoryBytes - o.makerMemoryBytes() }

// grantLocked returns how much memory a pass gets that could use wanted bytes, and whether that is
// enough to begin with.
//
// A pass gets what it wants, but no more than an equal share of a worker, and no more than three
// quarters of what is free: however many large logs are at work, there is memory for a small one.
// What was granted is held until the pass ends, so all passes together never hold more than they
// may.
func (c *Cleaner) grantLocked(wanted int64) (bytes int64, enough bool) {
	all := c.mu.opts.passesMemoryBytes()
	free := max(0, all-c.mu.granted)
	bytes = max(1, min(wanted, all/int64(max(1, c.mu.opts.Workers)), free-free/4))
	return bytes, c.mu.passes == 0 || bytes >= min(wanted, passMemoryBytesMin)
}

// memoryBytes is what is held now, passes as of their last reports, and what may be held.
func (c *Cleaner) memoryBytes() (held, limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held = c.mu.making
	for _, state := range c.mu.logs {
		if state.running() {
			held += state.progress.MemoryBytes
		}
	}
	return held, c.mu.opts.MemoryBytes
}

// lockMaker waits for the right to make a sidecar or an estimate. The caller holds no worker, and
// no right to make sidecars of a log.
func (c *Cleaner) lockMaker(done <-chan struct{}) bool {
	select {
	case c.maker <- struct{}{}:
	case <-done:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.making = c.mu.opts.makerMemoryBytes()
	return true
}

func (c *Cleaner) unlockMaker() {
	c.mu.Lock()
	c.mu.making = 0
	c.mu.Unlock()
	<-c.maker
}
