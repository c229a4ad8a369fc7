package sim

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// barrierKey is the key of barrier records. Once a barrier is in the log, all records that were
// acknowledged before the barrier was produced are below it.
const barrierKey = "~"

// tail is a consumer's position in a topic, and the state that it has read.
type tail struct {
	offset     int64 // next offset
	epoch      int32 // leader epoch of the last record that was read; -1: none
	highest    int64 // highest received high watermark
	state      map[string]string
	incomplete bool  // true if unread records were deleted, so state may lack a key
	last       int32 // broker of the last read; -1: none
	unanswered bool  // true if the broker of the last read has not responded
}

func newTail() *tail { return &tail{epoch: -1, last: -1, state: map[string]string{}} }

// reader returns the broker to read from. Usually this is the previous broker, while it is alive.
// Otherwise it is the leader, or another replica that is in sync according to a broker's image
// (KIP-392).
func (c *client) reader(t *topic) *liveBroker {
	if tail := c.tails[t.name]; tail.last >= 0 && !tail.unanswered &&
		c.random.IntN(c.w.profile.stayOdds) > 0 {
		if l := c.w.brokers[tail.last].live.Load(); l != nil && !l.dead.Load() {
			return l
		}
	}
	leader := c.leader(t)
	if leader == nil || c.random.IntN(c.w.profile.stayOdds+1) > 2 {
		return leader
	}
	image := leader.image.Load()
	if image == nil || image.Topic(t.name) == nil ||
		len(image.Topic(t.name).Partitions[0].ISR) == 0 {
		return leader
	}
	isr := image.Topic(t.name).Partitions[0].ISR
	return c.w.brokers[isr[c.random.IntN(len(isr))]].live.Load()
}

// poll fetches once, and verifies the broker's response.
func (c *client) poll(t *topic, wait time.Duration) {
	tail := c.tails[t.name]
	l := c.reader(t)
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.w.ctx, wait+3*time.Second)
	defer cancel()
	// After a fetch without a response, the next fetch goes to another broker.
	tail.unanswered = true
	if c.w.net.send(ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	result, bytes, err := c.fetch(ctx, l, replica.FetchRequest{
		BytesMin: 1, BytesMax: 1 << 20, Wait: wait, AnyReplica: true,
		Partitions: []replica.FetchPartition{{
			ID: t.partitionID(), Topic: t.id, Offset: tail.offset, BytesMax: c.w.profile.fetchBytes,
			LeaderEpoch: c.known[t.name], LastEpoch: tail.epoch,
		}},
	})
	dead := l.dead.Load()
	if errors.Is(err, logstore.ErrOffsetOutOfRange) && tail.offset < result.LogStart &&
		(t.expires() || result.LogStart <= c.w.oracle.deletedTo(t.name)) {
		tail.offset, tail.epoch, tail.incomplete = result.LogStart, -1, true
		return
	}
	if result.Diverging != nil || errors.Is(err, logstore.ErrOffsetOutOfRange) {
		// After an election without proof that no record was lost, a copy of a cleaned log can report a
		// divergence although no record was lost (ADR 0186).
		mayDiverge := result.Diverging != nil && t.settings.Compact &&
			c.w.meta.recorded(t.name).UnprovenEpoch > tail.epoch
		if !c.w.oracle.mayLack(t.name, tail.offset) && !mayDiverge && !dead {
			c.w.fail(
				"%s: broker %d with log [%d, %d), high watermark %d, lacks what a consumer read up to %d, epoch %d: %v, %v",
				t.name,
				l.id,
				result.LogStart,
				result.LogEnd,
				result.HighWater,
				tail.offset,
				tail.epoch,
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
	records, next, epoch, err := decodeRecords(bytes)
	if err != nil && l.isFlipped(t.name) {
		return // the client has verified the checksum
	}
	if err != nil {
		c.w.fail("%s: broker %d returned a malformed batch to a consumer: %v", t.name, l.id, err)
		return
	}
	for len(records) > 0 && records[0].offset < tail.offset {
		records = records[1:]
	}
	c.w.oracle.checkContinues(l, t.name, tail.offset, tail.epoch)
	c.w.oracle.consumed(l, t.name, records)
	if c.w.net.send(ctx, l.id, clients) != nil {
		return
	}
	tail.advance(records, next, result.HighWater)
	tail.last, tail.unanswered = l.id, false
	if epoch >= 0 {
		tail.epoch = epoch
	}
}

// advance applies the records that were read, and advances the position.
func (t *tail) advance(records []logRecord, next, highWater int64) {
	for _, f := range records {
		t.state[f.key] = f.value
	}
	t.offset = max(t.offset, next)
	t.highest = max(t.highest, highWater)
}

// tail reads all topics until the run ends.
func (c *client) tail() {
	for sleep(c.w.ctx, time.Duration(10+c.random.IntN(300))*time.Millisecond) == nil {
		for _, t := range c.w.meta.topics {
			c.poll(t, time.Duration(c.random.IntN(300))*time.Millisecond)
			c.mu.Lock()
			c.mu.reached[t.name] = c.tails[t.name].offset
			c.mu.Unlock()
		}
	}
}

// read reads the current value of every key. It produces a barrier record, and reads until it has
// received the barrier. Then it continues to the highest high watermark that it has received. This
// is necessary because an older record can be missing below the high watermark if an unread record
// has superseded it. If read takes longer than half the tombstone retention, it starts again,
// because it may have read a value and missed the value's tombstone.
func (c *client) read(t *topic) {
	called := time.Now()
	mark := c.newBatch(t, false, barrierKey)
	if !c.deliver(t, []*batch{mark}) {
		return
	}
	until := mark.records[0].offset + 1
	begin := time.Time{}
	for tail := c.tails[t.name]; tail.offset < max(until, tail.highest) ||
		time.Since(begin) > tombstoneRetention/2; tail = c.tails[t.name] {
		if time.Since(begin) > tombstoneRetention/2 {
			c.tails[t.name], begin = newTail(), time.Now()
		}
		if time.Since(called) > readTimeout || c.w.ctx.Err() != nil {
			return
		}
		before := tail.offset
		c.poll(t, 200*time.Millisecond)
		if c.tails[t.name].offset == before && sleep(c.w.ctx, 20*time.Millisecond) != nil {
			return
		}
	}
	if tail := c.tails[t.name]; !tail.incomplete {
		c.w.history.read(t.name, c.id, tail.state, called, time.Now())
	}
}
