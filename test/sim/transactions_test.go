package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// Brokers refuse transactions of clients, as there is no coordinator yet. The logs and replicas
// know them, and are asked here for what a coordinator will ask of them.

// transactionKeys are of transactions alone: what is read of them is not a register's history.
const transactionKeys = 4

// transaction is one of a producer in one topic.
type transaction struct {
	decided, commit bool // decided before the first marker is written
}

// transact writes one transaction after the other.
func (c *client) transact() {
	for !c.w.isCalm() && sleep(c.w.ctx,
		time.Duration(100+c.random.IntN(700))*time.Millisecond) == nil {
		c.transaction(c.w.meta.mu.topics[c.random.IntN(len(c.w.meta.mu.topics))])
	}
}

// transaction writes some batches, and ends what it has begun whatever became of them: commits only
// what was all acknowledged.
func (c *client) transaction(t *topic) {
	if c.w.oracle.tainted(t.name) {
		c.renew() // the end of the one before may be lost
	}
	tx, commit, whole := &transaction{}, c.random.IntN(3) > 0, true
	for range 1 + c.random.IntN(3) {
		b := c.newTransactional(t, tx)
		if !c.insist(t, time.Now().Add(writeTimeout),
			func(ctx context.Context,
				l *life) error {
				return c.appendTransactional(ctx, l, t, b)
			}) {
			commit, whole = false, false
			break
		}
		// much may happen while it is open
		_ = sleep(c.w.ctx, time.Duration(c.random.IntN(500))*time.Millisecond)
	}
	c.w.oracle.decide(t.name, tx, commit)
	if !c.insist(t, time.Now().Add(time.Hour),
		func(ctx context.Context, l *life) error { return c.end(ctx, l, t, commit) }) {
		c.w.oracle.leaveOpen(t.name)
	}
	if !whole {
		c.renew() // nobody knows which sequence is next
	}
}

// newTransactional makes a batch of the transaction.
func (c *client) newTransactional(t *topic, tx *transaction) *batch {
	count := 1 + c.random.IntN(3)
	identity := record.Identity{
		ProducerID: c.producer, BaseSequence: c.next[t.name], LeaderEpoch: -1,
		LastOffsetDelta: int32(count - 1), Transactional: true,
	}
	c.next[t.name] += int32(count)
	b := &batch{}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(identity)
	for i := range count {
		c.values++
		f := fact{
			key:   fmt.Sprintf("t%x", c.random.IntN(transactionKeys)),
			value: fmt.Sprintf("%d.%d", c.id, c.values), producer: c.producer,
			sequence: identity.BaseSequence + int32(i), timestamp: c.clock(t).UnixMilli(),
		}
		builder.Add(&record.Record{Offset: int64(i), Timestamp: f.timestamp, Key: []byte(f.key),
			Value: []byte(f.value)})
		b.facts = append(b.facts, f)
		c.w.oracle.within(t.name, tx, f)
	}
	bytes, err := builder.Build(nil)
	if err != nil {
		c.w.fail("build a batch: %v", err)
	}
	b.bytes = bytes
	return b
}

// insist asks whoever leads until it is done and the answer has arrived, or until a time, or until
// nothing is to be written any more.
func (c *client) insist(t *topic, until time.Time,
	do func(context.Context, *life) error) (done bool) {
	for time.Now().Before(until) && !c.w.isCalm() && c.w.ctx.Err() == nil {
		if l := c.leader(t); l != nil && c.ask(l, do) == nil {
			return true
		}
		if sleep(c.w.ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	return false
}

// ask asks a broker once.
func (c *client) ask(l *life, do func(context.Context, *life) error) error {
	ctx, cancel := context.WithTimeout(l.ctx, 4*time.Second)
	defer cancel()
	if err := c.w.net.travel(ctx, clients, l.id); err != nil {
		return err
	}
	err := do(ctx, l)
	if l.dead.Load() {
		return errLost
	}
	return errors.Join(err, c.w.net.travel(ctx, l.id, clients))
}

func (c *client) appendTransactional(ctx context.Context, l *life, t *topic, b *batch) error {
	log, err := c.leaderLog(l, t)
	if err != nil {
		return err
	}
	epoch := log.LeaderEpoch()
	appended, err := log.AppendVerified(slices.Clone(b.bytes), logstore.Verified{Transaction: true},
		time.Now())
	if err != nil {
		return err
	}
	if err = c.awaitEverything(ctx, l, t, epoch); err == nil && !l.dead.Load() {
		b.settle(appended.BaseOffset)
		c.w.oracle.acknowledged(l, t.name, b.facts, appended.Duplicate)
	}
	return err
}

// leaderLog is the log of a leader that has enough replicas in sync to write to.
func (c *client) leaderLog(l *life, t *topic) (*logstore.Log, error) {
	for _, state := range l.set.States() {
		if state.ID == t.partitionID() && state.UnderMinISR {
			return nil, replica.ErrNotEnoughReplicas
		}
	}
	return l.set.Leader(t.partitionID(), -1)
}

// awaitEverything waits until all in sync have what the leader of an epoch has now: behind a record
// that is put there for it, since a log that is appended to moves no high watermark by itself.
func (c *client) awaitEverything(ctx context.Context, l *life, t *topic, epoch int32) error {
	behind := c.newBatch(t, true, marker)
	last, err := l.set.AppendIn(epoch,
		replica.ProducePartition{ID: t.partitionID(), Topic: t.id, Batch: behind.bytes})
	if err != nil {
		return err
	}
	return l.set.Await(ctx, t.partitionID(), epoch, last, 3*time.Second)
}

// end writes the marker that ends the producer's transaction. It may be there already.
func (c *client) end(ctx context.Context, l *life, t *topic, commit bool) error {
	log, err := c.leaderLog(l, t)
	if err != nil {
		return err
	}
	epoch := log.LeaderEpoch()
	if _, err := log.AppendControl(logstore.EndTxn{ProducerID: c.producer, Commit: commit},
		time.Now()); err != nil {
		return err
	}
	return c.awaitEverything(ctx, l, t, epoch)
}

// tailCommitted reads all topics' committed data until the run ends.
func (c *client) tailCommitted() {
	for sleep(c.w.ctx, time.Duration(50+c.random.IntN(400))*time.Millisecond) == nil {
		for _, t := range c.w.meta.mu.topics {
			if l := c.reader(t); l != nil {
				_ = c.ask(l, func(ctx context.Context,
					l *life) error {
					return c.pollCommitted(ctx, l, t)
				})
			}
		}
	}
}

// pollCommitted fetches once.
func (c *client) pollCommitted(ctx context.Context, l *life, t *topic) error {
	at := c.tails[t.name]
	result, bytes, err := c.fetch(ctx, l, replica.FetchRequest{
		BytesMin: 1, BytesMax: 1 << 20, AnyReplica: true, ReadCommitted: true,
		Partitions: []replica.FetchPartition{{
			ID: t.partitionID(), Topic: t.id, Offset: at.at, BytesMax: 1 << 20, LeaderEpoch: -1,
			LastEpoch: at.epoch,
		}},
	})
	var aborted []abortedTransaction
	if result.Data != nil {
		for _, a := range result.Data.Aborted {
			aborted = append(aborted, abortedTransaction{a.ProducerID, a.FirstOffset})
		}
	}
	// whether it may be, other readers tell
	if result.Diverging != nil || errors.Is(err, logstore.ErrOffsetOutOfRange) {
		c.tails[t.name] = newTail()
		c.tails[t.name].at = max(0, result.LogStart)
		return nil
	}
	if err != nil || l.dead.Load() {
		return err
	}
	visible, next, epoch, err := committed(bytes, aborted)
	if err != nil {
		c.w.fail("%s: broker %d gives a consumer %v", t.name, l.id, err)
		return err
	}
	if next <= at.at {
		return nil
	}
	visible = slices.DeleteFunc(visible, func(f fact) bool { return f.offset < at.at })
	c.w.oracle.readCommitted(l, t.name, at.at, next, visible)
	at.at, at.epoch, at.last, at.silent = next, epoch, l.id, false
	return nil
}

// abortedTransaction is what a broker says of one to a reader: what the producer wrote from an
// offset on, up to a marker.
type abortedTransaction struct{ producer, first int64 }

// committed are the records that a reader of committed data takes of batches, as Kafka's consumer
// does.
func committed(batches []byte, aborted []abortedTransaction) (visible []fact, next int64,
	epoch int32, err error) {
	leftOut := map[int64]bool{}
	slices.SortFunc(aborted, func(a, b abortedTransaction) int { return int(a.first - b.first) })
	for len(batches) > 0 {
		first, rest, err := record.Next(batches)
		if err != nil {
			return nil, 0, -1, err
		}
		for len(aborted) > 0 && aborted[0].first <= first.LastOffset() {
			leftOut[aborted[0].producer] = true
			aborted = aborted[1:]
		}
		facts, end, at, err := factsOf(batches[:len(batches)-len(rest)])
		if err != nil {
			return nil, 0, -1, err
		}
		if marker, ends, err := first.Marker(); err == nil && ends &&
			marker.Type == record.ControlAbort {
			delete(leftOut, first.ProducerID())
		}
		if !first.Control() && !(first.Transactional() && leftOut[first.ProducerID()]) {
			visible = append(visible, facts...)
		}
		next, epoch, batches = end, at, rest
	}
	return visible, next, epoch, nil
}

// within is told of a record before it is written.
func (o *oracle) within(name string, tx *transaction, f fact) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(name).transactions[[2]int64{f.producer, int64(f.sequence)}] = tx
}

// decide is told how a transaction ends before its first marker is written.
func (o *oracle) decide(name string, tx *transaction, commit bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tx.decided, tx.commit = true, commit
	if t := o.of(name); commit {
		t.count.committed++
	} else {
		t.count.aborted++
	}
}

// leaveOpen is told that the end of a transaction may not be written.
func (o *oracle) leaveOpen(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(name).open = true
}

func (o *oracle) isOpen(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(name).open
}

// transactionOf is the transaction of a record, nil if it is of none.
func (t *truth) transactionOf(f fact) *transaction {
	if f.sequence < 0 {
		return nil
	}
	return t.transactions[[2]int64{f.producer, int64(f.sequence)}]
}

// counts tells whether a record is its key's value: it is no marker, and of no transaction that was
// not committed. Where records were lost, markers may have been: an aborted transaction is then
// open again, and the producer's next marker ends it, perhaps otherwise.
func (t *truth) counts(f fact) bool {
	tx := t.transactionOf(f)
	return !f.control && (tx == nil || tx.decided && tx.commit && !t.tainted)
}

// readCommitted is told what a reader of committed data was given between two offsets: of
// transactions all that were committed, and nothing of others.
func (o *oracle) readCommitted(l *life, name string, from, to int64, visible []fact) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	if t.tainted {
		return
	}
	seen := map[int64]bool{}
	for _, f := range visible {
		if seen[f.offset] = true; !t.counts(f) {
			o.w.fail("%s: broker %d gives a reader of committed data %+v; its transaction: %+v",
				name, l.id, f, *t.transactionOf(f))
		}
		if t.transactionOf(f) != nil {
			t.count.readCommitted++
		}
	}
	if t.settings.Compact {
		return
	}
	for offset := from; offset < to; offset++ {
		if f, ok := t.settled[offset]; ok && t.transactionOf(f) != nil && t.counts(f) &&
			!seen[offset] {
			o.w.fail(
				"%s: broker %d gives a reader of committed data [%d, %d), and not %+v, which was committed",
				name,
				l.id,
				from,
				to,
				f,
			)
		}
	}
}
