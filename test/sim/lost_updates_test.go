package sim

import "testing"

// TestLostUpdatesAreDetected runs the simulation without compare-and-swap, so that writes of an
// entry replace each other. The checks of the logs and of the elections must detect this, even
// without the checks of the entries.
func TestLostUpdatesAreDetected(t *testing.T) {
	for seed := range uint64(60) {
		w := simulate(t, seed+1, nil, false, func(w *world) { w.store.acceptStale = true })
		if w == nil {
			return
		}
		if w.mu.violation != "" {
			t.Logf("seed %d: %s", seed+1, w.mu.violation)
			return
		}
	}
	t.Error("no seed has detected lost updates")
}
