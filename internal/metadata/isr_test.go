package metadata

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestChangeISREachBoundsConcurrency checks that ChangeISREach settles each change once, runs at
// most atOnce changes at the same time, and starts a change's timeout when the change starts.
func TestChangeISREachBoundsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		one := func(ctx context.Context, change ISRChange) (int64, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				running--
			}()
			if change.Partition%2 == 0 {
				time.Sleep(ChangeISRTimeout - time.Second)
				return 0, ctx.Err()
			}
			<-ctx.Done() // this change hangs until its timeout
			return 0, ctx.Err()
		}
		changes := make([]ISRChange, 20)
		for i := range changes {
			changes[i].Partition = int32(i)
		}
		settled := map[int][]error{}
		ChangeISREach(4, one)(t.Context(), changes, func(i int, _ int64, err error) {
			mu.Lock()
			defer mu.Unlock()
			settled[i] = append(settled[i], err)
		})
		for i := range changes {
			if hangs := i%2 == 1; len(settled[i]) != 1 ||
				errors.Is(settled[i][0], context.DeadlineExceeded) != hangs {
				t.Errorf("change %d (hangs: %t) settled with %v", i, hangs, settled[i])
			}
		}
		if most != 4 {
			t.Errorf("got up to %d concurrent changes, want 4", most)
		}
	})
}
