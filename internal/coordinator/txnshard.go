package coordinator

import (
	"log/slog"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
)

// txnShard is the runtime.Machine for the transactional ids of one partition. It adds metrics, and
// the settings from the metadata image, to the pure transaction.State.
type txnShard struct {
	*transaction.State
	transactions *Transactions

	configured metadata.Transactions
	ended      transaction.Ended // part of State.Ended that the metrics already include

	// phases contains the number of transactional ids by phase name. The metrics collector reads it.
	phases atomic.Pointer[map[string]int]
}

func (t *Transactions) newShard(timers state.Timers[transaction.TimerKey]) *txnShard {
	s := &txnShard{State: transaction.New(t.configFor(metadata.Transactions{}), timers),
		transactions: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded[s] = struct{}{}
	return s
}

// Close implements runtime.Machine.
func (s *txnShard) Close() {
	s.transactions.mu.Lock()
	defer s.transactions.mu.Unlock()
	delete(s.transactions.loaded, s)
}

// Loaded implements runtime.Machine.
func (s *txnShard) Loaded(now time.Time, d runtime.Delta) transaction.Output {
	s.configure(d.Image)
	return s.State.Loaded(now)
}

// ApplyMetadata implements runtime.Machine.
func (s *txnShard) ApplyMetadata(_ time.Time, d runtime.Delta) transaction.Output {
	s.configure(d.Image)
	return transaction.Output{}
}

func (s *txnShard) configure(img *metadata.Image) {
	if s.configured != img.Transactions {
		s.configured = img.Transactions
		s.Configure(s.transactions.configFor(img.Transactions))
	}
}

// Measure implements runtime.Machine. It counts the transactional ids by phase only if sample is
// set, because this visits all of them.
func (s *txnShard) Measure(sample bool) {
	s.transactions.metrics.count(s.ended, s.Ended())
	s.ended = s.Ended()
	if sample {
		counts := map[string]int{}
		s.CountPhases(counts)
		s.phases.Store(&counts)
	}
}

// LogValue implements runtime.Machine.
func (s *txnShard) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("transactionalIDs", s.Len()))
}
