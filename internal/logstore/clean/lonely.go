package clean

import (
	"errors"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// lowestHeld is the lowest tombstone below which a record of its key is left in the log, as of now;
// nowhere: there is none.
func (p *pass) lowestHeld() place {
	lowest := nowhere
	for _, plan := range p.plans {
		if !plan.rewritten {
			lowest = first(lowest, plan.holds)
		}
	}
	return lowest
}

// findLonely finds out up to where every tombstone is alone (Stats.LonelyTo): up to the lowest that
// is held by what the pass has left, for the sake of I/O or for want of space, and at most up to
// the first segment that nobody could read, where anything may be.
//
// It is the tombstone's place that counts, and not that of what holds it: in a log in which keys
// are deleted all the time, cold segments always hold the value of one that was deleted lately.
// Each is forced out in time (blockingMax), and by then the tombstones above are newer ones: so the
// offset follows the end of the log, two retentions behind it at the most.
func (p *pass) findLonely() error {
	p.stats.TombstoneCleanOffset = p.Bound
	for _, plan := range p.plans {
		if plan.keys == nil || plan.counts.Opaque > 0 {
			p.stats.TombstoneCleanOffset = min(p.stats.TombstoneCleanOffset, plan.segment.Base())
		}
	}
	lowest := p.lowestHeld()
	if lowest == nowhere {
		return nil
	}
	at := p.plans[lowest.segment]
	err := at.batches(func(b keys.Batch) error {
		if lowest.ordinal >= b.FirstOrdinal+uint32(b.Records) {
			return nil
		}
		p.stats.TombstoneCleanOffset = min(p.stats.TombstoneCleanOffset, b.BaseOffset)
		return errFound
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// errFound ends a search.
var errFound = errors.New("found")
