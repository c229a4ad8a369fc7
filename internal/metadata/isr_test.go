package metadata

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestChangeISREachBoundsConcurrency: each change is settled once, at most atOnce run concurrently,
// and the timeout of a change starts with it.
func TestChangeISREachBoundsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		one := func(ctx context.Context, change ISRChange) error {
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
				return ctx.Err()
			}
			<-ctx.Done() // it hangs
			return ctx.Err()
		}
		changes := make([]ISRChange, 20)
		for i := range changes {
			changes[i].Partition = int32(i)
		}
		settled := map[int][]error{}
		ChangeISREach(4, one)(t.Context(), changes, func(i int, err error) {
			mu.Lock()
			defer mu.Unlock()
			settled[i] = append(settled[i], err)
		})
		for i := range changes {
			if hangs := i%2 == 1; len(settled[i]) != 1 ||
				errors.Is(settled[i][0], context.DeadlineExceeded) != hangs {
				t.Errorf("change %d settled with %v", i, settled[i])
			}
		}
		if most != 4 {
			t.Errorf("%d changes ran concurrently, want 4", most)
		}
	})
}
