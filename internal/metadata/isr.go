package metadata

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// ChangeISRTimeout is the maximum duration of one ISR change. After this time, the outcome counts
// as unknown.
const ChangeISRTimeout = 5 * time.Second

// ChangeISREach returns an implementation of Store.ChangeISR that calls one for each change. At
// most atOnce calls run at the same time. A change's timeout starts with its call.
func ChangeISREach(
	atOnce int, one func(context.Context, ISRChange) (partitionEpoch int64, err error),
) func(ctx context.Context, changes []ISRChange, settled SettledISR) {
	return func(ctx context.Context, changes []ISRChange, settled SettledISR) {
		var workers errgroup.Group
		workers.SetLimit(atOnce)
		for i, change := range changes {
			workers.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, ChangeISRTimeout)
				defer cancel()
				partitionEpoch, err := one(ctx, change)
				settled(i, partitionEpoch, err)
				return nil
			})
		}
		_ = workers.Wait() // settled receives the errors of one
	}
}
