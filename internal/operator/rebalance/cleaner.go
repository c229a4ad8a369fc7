package rebalance

import (
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/placement/balance"
)

const (
	// reclaimablePercent is how much of a partition must be reclaimable for the cleaner to clean it
	// before a copy.
	reclaimablePercent = 30
	// cleanerWaitMax is how long a move waits for the cleaner to remove garbage.
	cleanerWaitMax = 10 * time.Minute
	// passWaitMax is how long a move waits for passes on the broker that loses the replica. A pass
	// ends, but the next one may begin before the broker reports again, so that a partition with
	// many updates is always being cleaned.
	passWaitMax = 6 * time.Hour
)

// awaitCleaner returns what a copy waits for: that the cleaner removes garbage, so that it is not
// copied, and that a pass ends whose replica would be removed.
func (s *selection) awaitCleaner(p *Partition, m balance.Move) string {
	if slices.Contains(p.Cleaning, m.From) {
		return s.awaitPass(p, m.From)
	}
	garbage := p.Reclaimable*100 > p.Bytes*reclaimablePercent
	if !garbage && !slices.Contains(p.Cleaning, p.Leader) {
		return ""
	}
	run := s.run()
	// After a clean long before the move there would be garbage again.
	if s.cleans[m.To]++; s.cleans[m.To] > 2*s.limit {
		return "Further partitions follow."
	}
	since, waiting := run.Waits[p.Key()]
	if waiting && s.Now.Sub(since) >= cleanerWaitMax {
		return ""
	}
	if !waiting {
		run.Waits[p.Key()] = s.Now
		if garbage {
			s.Clean = append(s.Clean, m.Partition)
		}
	}
	return fmt.Sprintf("The cleaner cleans partition %s before it moves.", p.Key())
}

// awaitPass returns what a copy waits for while the broker that loses the replica cleans it. A
// limit as short as that for garbage would cut off passes of large partitions.
func (s *selection) awaitPass(p *Partition, from int32) string {
	since, waiting := s.run().Passes[p.Key()]
	if !waiting {
		since = s.Now
	}
	s.passes[p.Key()] = since
	if s.Now.Sub(since) >= passWaitMax {
		return ""
	}
	return fmt.Sprintf("Broker %d cleans partition %s before it moves.", from, p.Key())
}
