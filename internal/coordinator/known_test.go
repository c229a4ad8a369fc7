package coordinator

import (
	"errors"
	"maps"
	"testing"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
)

// TestKnownProducers checks that a coordinator knows a transactional id's producer, while its
// transaction is open and after the transaction is complete.
func TestKnownProducers(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		p := b.begin()
		for _, open := range []bool{true, false} {
			got, err := b.Known(b.t.Context(), []int64{p.ID, 999})
			if want := map[int64]bool{p.ID: open}; err != nil || !maps.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
			if open {
				b.commit(p)
				b.wantPhase(transaction.CompleteCommit)
			}
		}
	})
}

// TestKnownProducersOfOtherCoordinators checks that another broker's answer counts only if it is
// from the leader epoch in the metadata image.
func TestKnownProducersOfOtherCoordinators(t *testing.T) {
	testTransactions(t, func(b *txnBroker) {
		b.Lead(2, 2)
		for name, test := range map[string]struct {
			loaded []StatePartition
			want   error
		}{
			"present epoch": {[]StatePartition{{0, 2}}, nil},
			"earlier epoch": {[]StatePartition{{0, 1}}, ErrUnknownCoordinators},
			"not loaded":    {nil, ErrUnknownCoordinators},
		} {
			b.mu.Lock()
			b.known = KnownProducers{Open: map[int64]bool{7: true}, Loaded: test.loaded}
			b.mu.Unlock()
			got, err := b.Known(b.t.Context(), []int64{7})
			if !errors.Is(err, test.want) || err == nil && !got[7] {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, test.want)
			}
		}
		present := b.opts.Image
		b.opts.Image = func() *metadata.Image {
			image := present()
			without := metadata.NewImage(image.ClusterID, image.Cleaner, image.Brokers, nil)
			without.Unresolved = []metadata.ID{{1}}
			return without
		}
		if _, err := b.Known(b.t.Context(), []int64{7}); !errors.Is(err, ErrUnknownCoordinators) {
			t.Errorf("with an unresolved topic: got %v", err)
		}
		b.opts.Image = present
		b.Lead(3, -1)
		if _, err := b.Known(b.t.Context(), []int64{7}); !errors.Is(err, ErrUnknownCoordinators) {
			t.Errorf("without a leader: got %v", err)
		}
	})
}
