package clean

import (
	"errors"
	"fmt"
)

// withNeed adds to ErrOverBudget how much memory would have been enough: as much more as there is more dirty section than
// was read by then, and twice that, because tables grow by doubling. While the clean section is read the table is complete,
// and what is missing is little. It is an estimate for a person to set a budget by, in whole MiB, and never below the limit
// that failed.
func (p *pass) withNeed(err error) error {
	if !errors.Is(err, ErrOverBudget) || p.progress.DoneBytes == 0 {
		return err
	}
	var dirty int64
	for _, plan := range p.plans[p.firstDirtySegment():] {
		dirty += plan.segment.SizeBytes()
	}
	share := max(1, float64(dirty)/float64(p.progress.DoneBytes))
	enough := int64(2*share*float64(p.memory.limit))>>20 + 1
	return fmt.Errorf("%w; about %d MiB would be enough", err, enough)
}

// memory counts what a pass holds: tables, plans and, in the peak only, the buffers of a batch. It counts what is reachable; what
// Go's collector has not come to yet is beside that, so a broker needs more than the budget.
//
// Invariant: 0 <= used <= limit.
type memory struct {
	limit, used, peak int64
}

// reserve counts n bytes more, or fails with ErrOverBudget and counts nothing. It is called before the allocation: a budget
// that is checked afterwards has been exceeded already.
func (m *memory) reserve(n int64) error {
	if m.used+n > m.limit {
		return fmt.Errorf("%w: %d bytes of %d are in use, %d more are needed", ErrOverBudget, m.used, m.limit, n)
	}
	m.used += n
	m.peak = max(m.peak, m.used)
	return nil
}

// release gives back n bytes that reserve counted.
func (m *memory) release(n int64) { m.used -= n }

// touch notes that n bytes were needed for a moment beside what is reserved. They are not held against the limit: a batch
// must be read whole, or the log could never be cleaned (I41).
func (m *memory) touch(n int64) { m.peak = max(m.peak, m.used+n) }
