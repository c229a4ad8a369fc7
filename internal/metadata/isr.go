package metadata

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// ChangeISRTimeout is how long one ISR change may take before its outcome is considered unknown.
const ChangeISRTimeout = 5 * time.Second

// ChangeISREach returns an implementation of Store.ChangeISR that calls the function one for each
// change. At most atOnce calls run at the same time. The timeout of a change starts with its call.
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
		_ = workers.Wait() // one's errors are passed to settled
	}
}
