package clean

import "sync/atomic"

// memory counts what a pass holds: tables, bitmaps and, in the peak only, the buffers of a batch.
// It counts what is reachable; what Go's collector has not come to yet is beside that, so a broker
// needs more than the budget.
//
// The sizes are chosen so that they fit the limit (see windows and tableBytes); only a segment that
// is too large for it by itself, or a batch, goes beyond.
type memory struct {
	limit int64
	used  int64
	peak  int64
}

// take counts n bytes more.
func (m *memory) take(n int64) {
	m.used += n
	m.peak = max(m.peak, m.used)
}

// give takes back n bytes that take counted.
func (m *memory) give(n int64) { m.used -= n }

// touch notes that n bytes were needed for a moment beside what is held: a batch must be read
// whole, or the log could never be cleaned (I41).
func (m *memory) touch(n int64) { m.peak = max(m.peak, m.used+n) }

// meter counts bytes of I/O that several slices do at once.
type meter struct {
	sidecar atomic.Int64 // bytes read of sidecars
	done    atomic.Int64 // Progress.DoneBytes
	unpaid  atomic.Int64 // read or written, and Env.Spend was not told yet
}

// MemoryTarget is the memory, in bytes, with which a pass over so many records in so many segments
// is as fast as it can be. With less it reads the sidecars in smaller parts, or several times.
func MemoryTarget(records int64, segments, workers int) int64 {
	table := max(tableBytesCached,
		int64(segments)*readEntriesMin*slotBytes*loadDenominator/loadNumerator)
	table = min(table, 2*slotBytes*records+tableSlotsMin*slotBytes)
	bitmaps := 3 * (records/8 + 8*int64(segments))
	return max(bitmaps+int64(workers)*table, int64(float64(bitmaps)/bitmapShare))
}
