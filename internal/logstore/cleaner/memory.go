package cleaner

// passMemoryBytesMin is the minimum memory with which a pass is started while other passes run. A
// pass that runs alone gets the available memory, even if that is less. Too little memory never
// makes a pass fail, but makes it slower.
const passMemoryBytesMin = 64 << 10

// sidecarMemoryBytes is the memory reserved for key sidecars and estimates: the largest amount that
// building one sidecar needs. If the budget is below 64 MiB, less is reserved. The sidecar of a
// segment with very many records then exceeds the reserved amount.
const sidecarMemoryBytes = 16 << 20

// sidecarsMemoryBytes returns the part of the memory budget that is reserved for key sidecars and
// estimates. Only one of them is computed at a time.
func (o Options) sidecarsMemoryBytes() int64 { return min(sidecarMemoryBytes, o.MemoryBytes/4) }

// passesMemoryBytes returns the part of the memory budget for all passes together.
func (o Options) passesMemoryBytes() int64 { return o.MemoryBytes - o.sidecarsMemoryBytes() }

// grantLocked returns the memory for a pass that could use target bytes, and whether this memory is
// enough to start the pass.
//
// A pass gets its target, but at most the share of one worker slot, and at most three quarters of
// the free memory. So even while many large logs are compacted, memory remains for a small log. A
// pass keeps its grant until it ends, so all passes together never exceed the budget.
func (c *Cleaner) grantLocked(target int64) (bytes int64, enough bool) {
	all := c.mu.opts.passesMemoryBytes()
	free := max(0, all-c.mu.grantedBytes)
	bytes = max(1, min(target, all/int64(max(1, c.mu.opts.Workers)), free-free/4))
	return bytes, c.mu.passes == 0 || bytes >= min(target, passMemoryBytesMin)
}

// memoryBytes returns the memory that the cleaner uses now, and the memory budget. A pass's memory
// is the value in its last progress report.
func (c *Cleaner) memoryBytes() (held, limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held = c.mu.sidecarBytes
	for _, state := range c.mu.logs {
		if state.running() {
			held += state.progress.MemoryBytes
		}
	}
	return held, c.mu.opts.MemoryBytes
}

// lockSidecarSlot waits for the sidecar slot. It returns false if the channel done was closed
// first. The caller holds no worker slot and no lock of a log's sidecars.
func (c *Cleaner) lockSidecarSlot(done <-chan struct{}) bool {
	select {
	case c.sidecarSlot <- struct{}{}:
	case <-done:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.sidecarBytes = c.mu.opts.sidecarsMemoryBytes()
	return true
}

func (c *Cleaner) unlockSidecarSlot() {
	c.mu.Lock()
	c.mu.sidecarBytes = 0
	c.mu.Unlock()
	<-c.sidecarSlot
}
