package replica

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// logStartLook is how often a deletion of records looks whether the followers have followed. They
// say so with their fetches, of which each sends one at least every half second; it is rare, and
// not worth another thing that fetches wake.
const logStartLook = 20 * time.Millisecond

// AwaitLogStart waits until no replica that is in sync, or may be, has records below an offset,
// which the leader's own log has given up already: until then one of them, elected, could show them
// again. It returns the lowest log start of them. ErrTimeout when ctx ends before.
func (s *Set) AwaitLogStart(ctx context.Context, id PartitionID, offset int64) (lowest int64,
	err error) {
	p, r, err := s.leader(id, -1)
	if err != nil {
		return -1, err
	}
	look := time.NewTicker(logStartLook)
	defer look.Stop()
	for {
		if lowest = r.reign.lowestStart(p.log.LogStart()); lowest >= offset {
			return lowest, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return -1, fmt.Errorf("%w: a replica in sync has records below offset %d still",
				ErrTimeout, offset)
		}
		if err := p.since(r); err != nil {
			return -1, err
		}
	}
}

// lowestStart is the lowest log start of the replicas that may be in sync on record, own for this
// one. Who joins later begins no lower (isr.propose).
func (g *reign) lowestStart(own int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	maximal := g.mu.isr.maximal()
	for id, f := range g.mu.isr.members {
		if slices.Contains(maximal, id) {
			own = min(own, f.logStart)
		}
	}
	return own
}
