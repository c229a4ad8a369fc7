package sim

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// marker is the key of the records that a reader waits for: with them in the log, all that was
// acknowledged before is below.
const marker = "~"

// tail is where a consumer stands in a topic, and what it has made of it.
type tail struct {
	at      int64
	epoch   int32 // of the record before; -1: none
	highest int64 // high watermark that it was told
	state   map[string]string
	torn    bool  // records that it had not read were deleted: it cannot know every key
	last    int32 // the broker that was read from last; -1: none
	silent  bool  // that one did not answer since
}

func newTail() *tail { return &tail{epoch: -1, last: -1, state: map[string]string{}} }

// reader is who was read from before, as long as that lives, else the leader, or another replica
// that some broker takes for in sync (KIP-392). Now and then a client changes its mind.
func (c *client) reader(t *topic) *life {
	if at := c.tails[t.name]; at.last >= 0 && !at.silent &&
		c.random.IntN(c.w.profile.staysFor) > 0 {
		if l := c.w.brokers[at.last].life.Load(); l != nil && !l.dead.Load() {
			return l
		}
	}
	leader := c.leader(t)
	if leader == nil || c.random.IntN(c.w.profile.staysFor+1) > 2 {
		return leader
	}
	image := leader.image.Load()
	if image == nil || image.Topic(t.name) == nil ||
		len(image.Topic(t.name).Partitions[0].ISR) == 0 {
		return leader
	}
	isr := image.Topic(t.name).Partitions[0].ISR
	return c.w.brokers[isr[c.random.IntN(len(isr))]].life.Load()
}

// poll fetches once.
func (c *client) poll(t *topic, wait time.Duration) {
	at := c.tails[t.name]
	l := c.reader(t)
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.w.ctx, wait+3*time.Second)
	defer cancel()
	// Whoever does not answer is not asked again at once; another may go on in its place.
	at.silent = true
	if c.w.net.travel(ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	result, bytes, err := c.fetch(ctx, l, replica.FetchRequest{
		BytesMin: 1, BytesMax: 1 << 20, Wait: wait, AnyReplica: true,
		Partitions: []replica.FetchPartition{{
			ID: t.partitionID(), Topic: t.id, Offset: at.at, BytesMax: c.w.profile.fetchBytes,
			LeaderEpoch: c.known[t.name], LastEpoch: at.epoch,
		}},
	})
	dead := l.dead.Load()
	if errors.Is(err, logstore.ErrOffsetOutOfRange) && at.at < result.LogStart &&
		(t.expires() || result.LogStart <= c.w.oracle.deletedTo(t.name)) {
		at.at, at.epoch, at.torn = result.LogStart, -1, true
		return
	}
	if result.Diverging != nil || errors.Is(err, logstore.ErrOffsetOutOfRange) {
		// Where records may have been lost since, a copy of a cleaned log cannot tell whether they
		// were (ADR 0186).
		doubtful := result.Diverging != nil && t.settings.Compact &&
			c.w.meta.recorded(t.name).UnprovenEpoch > at.epoch
		if !c.w.oracle.tainted(t.name) && !doubtful && !dead {
			c.w.fail(
				"%s: broker %d, whose log is [%d, %d), high watermark %d, does not have what a consumer read up to %d, of epoch %d: %v, %v",
				t.name,
				l.id,
				result.LogStart,
				result.LogEnd,
				result.HighWater,
				at.at,
				at.epoch,
				result.Diverging,
				err,
			)
		}
		c.tails[t.name] = newTail()
		return
	}
	if err != nil || dead {
		return
	}
	facts, next, epoch, err := factsOf(bytes)
	if err != nil {
		c.w.fail("%s: broker %d gives a consumer %v", t.name, l.id, err)
		return
	}
	for len(facts) > 0 && facts[0].offset < at.at {
		facts = facts[1:]
	}
	c.w.oracle.consumed(l, t.name, facts)
	if c.w.net.travel(ctx, l.id, clients) != nil {
		return
	}
	at.take(facts, next, result.HighWater)
	at.last, at.silent = l.id, false
	if epoch >= 0 {
		at.epoch = epoch
	}
}

// take goes on behind what was read.
func (t *tail) take(facts []fact, next, highWater int64) {
	for _, f := range facts {
		t.state[f.key] = f.value
	}
	t.at = max(t.at, next)
	t.highest = max(t.highest, highWater)
}

// tail reads all topics' ends until the run ends.
func (c *client) tail() {
	for sleep(c.w.ctx, time.Duration(10+c.random.IntN(300))*time.Millisecond) == nil {
		for _, t := range c.w.meta.mu.topics {
			c.poll(t, time.Duration(c.random.IntN(300))*time.Millisecond)
			c.mu.Lock()
			c.mu.reached[t.name] = c.tails[t.name].at
			c.mu.Unlock()
		}
	}
}

// read reads every key's value as it is now: it writes a marker, reads everything until it has seen
// it, and on to the highest of the high watermarks that it was told. (Below that, what is missing
// was superseded by something that it has not read yet.) A reader that is slower than tombstones
// are kept has to begin again: it may have read a value, and miss its deletion.
func (c *client) read(t *topic) {
	called := time.Now()
	mark := c.newBatch(t, false, marker)
	if !c.deliver(t, []*batch{mark}) {
		return
	}
	until := mark.facts[0].offset + 1
	began := time.Time{}
	for at := c.tails[t.name]; at.at < max(until, at.highest) ||
		time.Since(began) > tombstoneRetention/2; at = c.tails[t.name] {
		if time.Since(began) > tombstoneRetention/2 {
			c.tails[t.name], began = newTail(), time.Now()
		}
		if time.Since(called) > readTimeout || c.w.ctx.Err() != nil {
			return
		}
		before := at.at
		c.poll(t, 200*time.Millisecond)
		if c.tails[t.name].at == before && sleep(c.w.ctx, 20*time.Millisecond) != nil {
			return
		}
	}
	if at := c.tails[t.name]; !at.torn {
		c.w.history.read(t.name, c.id, at.state, called, time.Now())
	}
}
