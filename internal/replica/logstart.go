package replica

import (
	"context"
	"fmt"
	"time"
)

// logStartPollInterval is the time between two checks of the followers' log start offsets by
// AwaitLogStart. Followers report these offsets in their fetches, at least every half second.
// Deletions are rare, so a fetch does not wake the calls of AwaitLogStart.
const logStartPollInterval = 20 * time.Millisecond

// AwaitLogStart waits until no replica of the maximal ISR holds records below an offset, which the
// leader's own log has already deleted. As long as a replica holds such records, it could serve
// them again once elected. It returns the lowest log start offset of these replicas, or ErrTimeout
// when ctx ends.
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
