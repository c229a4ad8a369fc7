package metadata

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// ChangeISRTimeout is how long one ISR change may take before its outcome is considered unknown.
const ChangeISRTimeout = 5 * time.Second

// ChangeISREach returns the ChangeISR of a store that makes changes one by one, at most atOnce
// concurrently. The timeout of a change starts with the change.
func ChangeISREach(
	atOnce int, one func(context.Context, ISRChange) error,
) func(ctx context.Context, changes []ISRChange, settled func(change int, err error)) {
	return func(ctx context.Context, changes []ISRChange, settled func(int, error)) {
		var workers errgroup.Group
		workers.SetLimit(atOnce)
		for i, change := range changes {
			workers.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, ChangeISRTimeout)
				defer cancel()
				settled(i, one(ctx, change))
				return nil
			})
		}
		_ = workers.Wait() // errors are passed to settled
	}
}
