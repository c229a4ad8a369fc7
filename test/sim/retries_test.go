package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// recentMax is how many of a producer's batches brokers have to know: clients keep at most so many
// in flight.
const recentMax = 5

// remember keeps the last batches that were acknowledged.
func (c *client) remember(t *topic, batches []*batch) {
	recent := slices.Concat(c.recent[t.name], batches)
	c.recent[t.name] = recent[max(0, len(recent)-recentMax):]
}

// sendAgain sends one of the producer's last five batches once more, as a client does that has not
// got their answers: whoever leads now, after whatever has happened since, has to know it, and
// answer with where it is.
func (c *client) sendAgain(t *topic) {
	recent := c.recent[t.name]
	if len(recent) == 0 {
		return
	}
	at := c.random.IntN(len(recent))
	l := c.leader(t)
	if l == nil || c.w.net.travel(l.ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, 4*time.Second)
	defer cancel()
	again := &batch{bytes: slices.Clone(recent[at].bytes), facts: slices.Clone(recent[at].facts)}
	produced := l.set.Append(replica.AcksAll,
		[]replica.ProducePartition{{ID: t.partitionID(), Topic: t.id, Batch: again.bytes}})
	result := produced.Wait(ctx, 3*time.Second)[0]
	first := again.facts[0]
	if !(result.Err == nil && result.Appended.Duplicate) &&
		c.w.oracle.isGone(t.name, first.offset) {
		// A replica that was copied since knows nothing of the producer: then any sequence is as
		// good, and this one may be the latest now.
		defer c.renew()
	}
	switch {
	case l.dead.Load():
	case result.Err == nil:
		again.settle(result.Appended.BaseOffset)
		c.w.oracle.acknowledged(l, t.name, again.facts, result.Appended.Duplicate)
		c.w.oracle.sentAgain(t.name)
	case errors.Is(result.Err, logstore.ErrOutOfOrderSequence) && !c.w.oracle.forgotten(t.name, &first):
		c.w.fail(
			"%s: broker %d does not know batch %d of the last %d of producer %d, acknowledged at offset %d: %v",
			t.name,
			l.id,
			at+1,
			len(recent),
			first.producer,
			first.offset,
			result.Err,
		)
	}
}

// isGone tells whether what was at an offset may have been deleted, or have expired.
func (o *oracle) isGone(name string, offset int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	return offset < max(t.deletedTo, t.expiredTo)
}

func (o *oracle) sentAgain(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(name).count.again++
}
