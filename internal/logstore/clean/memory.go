package clean

// memory accounts for the buffers of a pass: tables and bitmaps, and in the field peak also the
// buffers of batches. It includes only reachable memory. Memory that the Go runtime has not
// reclaimed yet is not included, so a broker needs more memory than the budget.
//
// windows and tableBudget choose sizes that fit the limit. Only a single huge segment or a single
// huge batch exceeds the limit.
type memory struct {
	limit int64
	used  int64
	peak  int64
}

// acquire adds n bytes to the memory in use, until release is called.
func (m *memory) acquire(n int64) {
	m.used += n
	m.peak = max(m.peak, m.used)
}

func (m *memory) release(n int64) { m.used -= n }

// touch updates the peak for a short-lived buffer of n bytes. The buffer may exceed the limit: a
// batch has to be read as a whole, however large it is, because otherwise its log could not be
// cleaned (I41).
func (m *memory) touch(n int64) { m.peak = max(m.peak, m.used+n) }

// available returns the part of the limit that is not in use. It is negative if the limit is
// exceeded.
func (m *memory) available() int64 { return m.limit - m.used }

// MemoryTarget returns the memory in bytes with which a pass over the given numbers of records and
// segments is as fast as possible. With less memory, a pass reads the sidecars in smaller pieces or
// several times.
func MemoryTarget(records int64, segments, workers int) int64 {
	bitmaps := 3 * (records/8 + 8*int64(segments))
	table := tableBytesBest(segments, records)
	return max(bitmaps+int64(workers)*table, int64(float64(bitmaps)/bitmapShare))
}
