package replica

import (
	"context"
	"fmt"
	"time"
)

// logStartPollInterval is the time between two checks of the followers' log start offsets by
// AwaitLogStart. Followers report these offsets in their fetches, at least every half second.
// AwaitLogStart polls because deletions are too rare to justify a notification for each fetch.
const logStartPollInterval = 20 * time.Millisecond

// AwaitLogStart waits until no replica in the maximal ISR has records below an offset. The leader
// has already deleted these records from its own log, but a replica that still has them would serve
// them again if it were elected. AwaitLogStart returns the lowest log start offset over the maximal
// ISR, or ErrTimeout when ctx ends.
func (s *Set) AwaitLogStart(ctx context.Context, id PartitionID, offset int64) (lowest int64,
	err error) {
	p, r, err := s.leader(id, -1)
	if err != nil {
		return -1, err
	}
	poll := time.NewTicker(logStartPollInterval)
	defer poll.Stop()
	for {
		if lowest = r.leaderState.lowestLogStart(p.log.LogStart()); lowest >= offset {
			return lowest, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return -1, fmt.Errorf("%w: an in-sync replica still has records below offset %d",
				ErrTimeout, offset)
		}
		if err := p.checkStillLeads(r); err != nil {
			return -1, err
		}
	}
}
