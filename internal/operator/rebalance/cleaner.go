package rebalance

import (
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/placement/balance"
)

const (
	// reclaimablePercent is the reclaimable percentage of a partition above which the cleaner cleans
	// the partition before a copy.
	reclaimablePercent = 30
	// cleanerWaitMax limits how long a move waits for the cleaner to remove garbage.
	cleanerWaitMax = 10 * time.Minute
	// passWaitMax limits how long a move waits for passes on the broker that loses the replica. If a
	// partition has many updates, the next pass may begin before the broker reports again. The
	// partition would then always be reported as being cleaned.
	passWaitMax = 6 * time.Hour
)

// awaitCleaner returns the reason why a copy must wait for the cleaner, or "". Either the cleaner
// first removes garbage, to avoid copying it, or a pass is running on the broker that loses the
// replica.
func (s *selection) awaitCleaner(p *Partition, m balance.Move) string {
	if slices.Contains(p.Cleaning, m.From) {
		return s.awaitPass(p, m.From)
	}
	garbage := p.Reclaimable*100 > p.Bytes*reclaimablePercent
	if !garbage && !slices.Contains(p.Cleaning, p.Leader) {
		return ""
	}
	run := s.run()
	// The number of partitions to clean is limited, because new garbage accumulates between a pass and
	// a much later move.
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

// awaitPass returns the reason why a copy must wait while the broker that loses the replica cleans
// it, or "". Its limit is longer than cleanerWaitMax, because passes over large partitions must not
// be interrupted.
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
