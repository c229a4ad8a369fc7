package clean

import "fmt"

// memory counts what a pass holds. Only tables, plans and the buffers of a batch count: what grows with the log.
type memory struct {
	limit, used, peak int64
}

// reserve counts n bytes more, or fails and counts nothing.
func (m *memory) reserve(n int64) error {
	if m.used+n > m.limit {
		return fmt.Errorf("%w: %d bytes of %d are in use, %d more are needed", ErrOverBudget, m.used, m.limit, n)
	}
	m.used += n
	m.peak = max(m.peak, m.used)
	return nil
}

func (m *memory) release(n int64) { m.used -= n }

// touch notes that n bytes were needed for a moment beside what is reserved.
func (m *memory) touch(n int64) { m.peak = max(m.peak, m.used+n) }
