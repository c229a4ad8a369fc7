package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// recentMax is the number of a producer's last batches that a broker must recognize. Clients have
// at most this number of batches in flight.
const recentMax = 5

// remember adds acknowledged batches to the client's recent batches. It keeps the last recentMax of
// them.
func (c *client) remember(t *topic, batches []*batch) {
	recent := slices.Concat(c.recent[t.name], batches)
	c.recent[t.name] = recent[max(0, len(recent)-recentMax):]
}

// repeatBatch repeats one of the producer's last five batches, like a client that has not received
// the response. Any leader must recognize the batch and return its offset.
func (c *client) repeatBatch(t *topic) {
	recent := c.recent[t.name]
	if len(recent) == 0 {
		return
	}
	index := c.random.IntN(len(recent))
	l := c.leader(t)
	if l == nil || c.w.net.send(l.ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, 4*time.Second)
	defer cancel()
	again := &batch{bytes: slices.Clone(recent[index].bytes),
		records: slices.Clone(recent[index].records)}
	produced := l.set.Append(replica.AcksAll,
		[]replica.ProducePartition{{ID: t.partitionID(), Topic: t.id, Batch: again.bytes}})
	result := produced.Wait(ctx, 3*time.Second)[0]
	first := again.records[0]
	if !(result.Err == nil && result.Appended.Duplicate) &&
		c.w.oracle.mayBeDeleted(t.name, first.offset) {
		// If the leader was copied after the deletion, it may not know the producer. It then accepts any
		// sequence number, so the repeated batch may now be the producer's latest one.
		defer c.newProducer()
	}
	switch {
	case l.dead.Load():
	case result.Err == nil:
		again.setOffsets(result.Appended.BaseOffset)
		c.w.oracle.acknowledged(l, t.name, again.records, result.Appended.Duplicate)
		c.w.oracle.batchRepeated(t.name)
	case errors.Is(result.Err, logstore.ErrOutOfOrderSequence) &&
		!c.w.oracle.mayForget(t.name, &first):
		c.w.fail(
			"%s: broker %d does not recognize batch %d of the last %d of producer %d, acknowledged at offset %d: %v",
			t.name,
			l.id,
			index+1,
			len(recent),
			first.producer,
			first.offset,
			result.Err,
		)
	}
}

// mayBeDeleted reports whether the record at an offset may have been deleted or have expired.
func (o *oracle) mayBeDeleted(name string, offset int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	return offset < max(t.deletedTo, t.expiredTo)
}

func (o *oracle) batchRepeated(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(name).count.repeated++
}
