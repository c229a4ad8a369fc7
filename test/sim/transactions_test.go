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

// The clients in this file call the logs and replicas directly, like a coordinator. So every run
// has transactions, even without the coordinators of TestExactlyOnce.

// transactionKeys is the number of keys that only transactions write. These keys' histories are not
// checked.
const transactionKeys = 4

// transaction is a producer's transaction in one topic.
type transaction struct {
	decided, commit bool // set before the first marker is written
}

// transact runs one transaction after the other.
func (c *client) transact() {
	for !c.w.writersStopped() && sleep(c.w.ctx,
		time.Duration(100+c.random.IntN(700))*time.Millisecond) == nil {
		c.transaction(c.w.meta.topics[c.random.IntN(len(c.w.meta.topics))])
	}
}

// transaction produces some batches, and then ends the transaction. It commits only if all batches
// were acknowledged.
func (c *client) transaction(t *topic) {
	if c.w.oracle.lostRecords(t.name) {
		c.newProducer() // the previous transaction's marker may be lost
	}
	tx, commit, whole := &transaction{}, c.random.IntN(3) > 0, true
	for range 1 + c.random.IntN(3) {
		b := c.newTransactional(t, tx)
		if !c.retryUntil(t, time.Now().Add(writeTimeout),
			func(ctx context.Context,
				l *liveBroker) error {
				return c.appendTransactional(ctx, l, t, b)
			}) {
			commit, whole = false, false
			break
		}
		// Faults can happen while the transaction is open.
		_ = sleep(c.w.ctx, time.Duration(c.random.IntN(500))*time.Millisecond)
	}
	c.w.oracle.decide(t.name, tx, commit)
	if !c.retryUntil(t, time.Now().Add(time.Hour),
		func(ctx context.Context, l *liveBroker) error { return c.endTransaction(ctx, l, t, commit) }) {
		c.w.oracle.leaveOpen(t.name)
	}
	if !whole {
		c.newProducer() // the next sequence number is unknown
	}
}

// newTransactional creates a batch that belongs to a transaction.
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
		f := logRecord{
			key:   fmt.Sprintf("t%x", c.random.IntN(transactionKeys)),
			value: fmt.Sprintf("%d.%d", c.id, c.values), producer: c.producer,
			sequence: identity.BaseSequence + int32(i), timestamp: c.clock(t).UnixMilli(),
		}
		builder.Add(&record.Record{Offset: int64(i), Timestamp: f.timestamp, Key: []byte(f.key),
			Value: []byte(f.value)})
		b.records = append(b.records, f)
		c.w.oracle.within(t.name, tx, f)
	}
	bytes, err := builder.Build(nil)
	if err != nil {
		c.w.fail("build a batch: %v", err)
	}
	b.bytes = bytes
	return b
}

// retryUntil sends a request to the current leader until the request succeeds and its response
// arrives, until a deadline, or until the writers are stopped.
func (c *client) retryUntil(t *topic, until time.Time,
	do func(context.Context, *liveBroker) error) (done bool) {
	for time.Now().Before(until) && !c.w.writersStopped() && c.w.ctx.Err() == nil {
		if l := c.leader(t); l != nil && c.request(l, do) == nil {
			return true
		}
		if sleep(c.w.ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	return false
}

// request sends one request to a broker.
func (c *client) request(l *liveBroker, do func(context.Context, *liveBroker) error) error {
	ctx, cancel := context.WithTimeout(l.ctx, 4*time.Second)
	defer cancel()
	if err := c.w.net.send(ctx, clients, l.id); err != nil {
		return err
	}
	err := do(ctx, l)
	if l.dead.Load() {
		return errLost
	}
	return errors.Join(err, c.w.net.send(ctx, l.id, clients))
}

func (c *client) appendTransactional(ctx context.Context, l *liveBroker, t *topic, b *batch) error {
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
		b.setOffsets(appended.BaseOffset)
		c.w.oracle.acknowledged(l, t.name, b.records, appended.Duplicate)
	}
	return err
}

// leaderLog returns the log of a partition that a broker leads. It fails while too few replicas are
// in sync for a write.
func (c *client) leaderLog(l *liveBroker, t *topic) (*logstore.Log, error) {
	for _, state := range l.set.States() {
		if state.ID == t.partitionID() && state.UnderMinISR {
			return nil, replica.ErrNotEnoughReplicas
		}
	}
	return l.set.Leader(t.partitionID(), -1)
}

// awaitEverything waits until all in-sync replicas have every record that the leader of an epoch
// has now. For this it appends a barrier record, because a direct append to the log does not
// advance the high watermark.
func (c *client) awaitEverything(ctx context.Context, l *liveBroker, t *topic, epoch int32) error {
	barrier := c.newBatch(t, true, barrierKey)
	last, err := l.set.AppendIn(epoch,
		replica.ProducePartition{ID: t.partitionID(), Topic: t.id, Batch: barrier.bytes})
	if err != nil {
		return err
	}
	return l.set.Await(ctx, t.partitionID(), epoch, last, 3*time.Second)
}

// endTransaction writes the marker that ends the producer's transaction. The log may already
// contain such a marker.
func (c *client) endTransaction(ctx context.Context, l *liveBroker, t *topic, commit bool) error {
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

// tailCommitted reads the committed records of all topics until the run ends.
func (c *client) tailCommitted() {
	for sleep(c.w.ctx, time.Duration(50+c.random.IntN(400))*time.Millisecond) == nil {
		for _, t := range c.w.meta.topics {
			if l := c.reader(t); l != nil {
				_ = c.request(l, func(ctx context.Context,
					l *liveBroker) error {
					return c.pollCommitted(ctx, l, t)
				})
			}
		}
	}
}

// pollCommitted fetches once as a read_committed consumer, and verifies the records.
func (c *client) pollCommitted(ctx context.Context, l *liveBroker, t *topic) error {
	tail := c.tails[t.name]
	result, bytes, err := c.fetch(ctx, l, replica.FetchRequest{
		BytesMin: 1, BytesMax: 1 << 20, AnyReplica: true, ReadCommitted: true,
		Partitions: []replica.FetchPartition{{
			ID: t.partitionID(), Topic: t.id, Offset: tail.offset, BytesMax: 1 << 20, LeaderEpoch: -1,
			LastEpoch: tail.epoch,
		}},
	})
	var aborted []abortedTransaction
	if result.Data != nil {
		for _, a := range result.Data.Aborted {
			aborted = append(aborted, abortedTransaction{a.ProducerID, a.FirstOffset})
		}
	}
	// Restart at the log start offset. Only poll verifies whether the broker is allowed to respond in
	// this way.
	if result.Diverging != nil || errors.Is(err, logstore.ErrOffsetOutOfRange) {
		c.tails[t.name] = newTail()
		c.tails[t.name].offset = max(0, result.LogStart)
		return nil
	}
	if err != nil || l.dead.Load() {
		return err
	}
	visible, next, epoch, err := committed(bytes, aborted)
	if err != nil && l.isFlipped(t.name) {
		return err
	}
	if err != nil {
		c.w.fail("%s: broker %d returned a malformed batch to a consumer: %v", t.name, l.id, err)
		return err
	}
	if next <= tail.offset {
		return nil
	}
	visible = slices.DeleteFunc(visible, func(f logRecord) bool { return f.offset < tail.offset })
	c.w.oracle.readCommitted(l, t.name, tail.offset, next, visible)
	tail.offset, tail.epoch, tail.last, tail.unanswered = next, epoch, l.id, false
	return nil
}

// abortedTransaction is an aborted transaction as a broker reports it to a consumer. It covers the
// producer's records from an offset up to the next abort marker.
type abortedTransaction struct{ producer, first int64 }

// committed returns those records of batches that a read_committed consumer passes to the
// application. It uses the rules of Kafka's consumer.
func committed(batches []byte, aborted []abortedTransaction) (visible []logRecord, next int64,
	epoch int32, err error) {
	excluded := map[int64]bool{}
	slices.SortFunc(aborted, func(a, b abortedTransaction) int { return int(a.first - b.first) })
	for len(batches) > 0 {
		first, rest, err := record.Next(batches)
		if err != nil {
			return nil, 0, -1, err
		}
		for len(aborted) > 0 && aborted[0].first <= first.LastOffset() {
			excluded[aborted[0].producer] = true
			aborted = aborted[1:]
		}
		records, end, id, err := decodeRecords(batches[:len(batches)-len(rest)])
		if err != nil {
			return nil, 0, -1, err
		}
		if marker, ends, err := first.Marker(); err == nil && ends &&
			marker.Type == record.ControlAbort {
			delete(excluded, first.ProducerID())
		}
		if !first.Control() && !(first.Transactional() && excluded[first.ProducerID()]) {
			visible = append(visible, records...)
		}
		next, epoch, batches = end, id, rest
	}
	return visible, next, epoch, nil
}

// within stores the transaction to which a record belongs, before the record is produced.
func (o *oracle) within(name string, tx *transaction, f logRecord) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(name).transactions[[2]int64{f.producer, int64(f.sequence)}] = tx
}

// decide processes the decision about a transaction before the first marker is written.
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

// leaveOpen records that a transaction's marker may not have been written.
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

// transactionOf returns the transaction to which a record belongs, or nil.
func (t *partitionModel) transactionOf(f logRecord) *transaction {
	if f.sequence < 0 {
		return nil
	}
	return t.transactions[[2]int64{f.producer, int64(f.sequence)}]
}

// takesEffect reports whether a record sets the value of its key. It does if it is not a control
// record, and belongs to no transaction or to a committed one. If records were lost, markers may be
// lost, too. An aborted transaction is then open again, and the producer's next marker ends it,
// perhaps with another result. So after a loss, transactional records are ignored.
func (t *partitionModel) takesEffect(f logRecord) bool {
	tx := t.transactionOf(f)
	return !f.control && (tx == nil || tx.decided && tx.commit && !t.lostRecords)
}

// readCommitted verifies the records that a read_committed consumer received between two offsets.
// They must include all records of committed transactions, and no records of other transactions.
func (o *oracle) readCommitted(l *liveBroker, name string, from, to int64, visible []logRecord) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	if t.lostRecords {
		return
	}
	seen := map[int64]bool{}
	for _, f := range visible {
		if seen[f.offset] = true; !t.takesEffect(f) {
			o.w.fail("%s: broker %d returned %+v to a read_committed consumer; its transaction: %+v",
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
		if f, ok := t.committed[offset]; ok && t.transactionOf(f) != nil && t.takesEffect(f) &&
			!seen[offset] {
			o.w.fail(
				"%s: broker %d returned [%d, %d) to a read_committed consumer without %+v, which was committed",
				name,
				l.id,
				from,
				to,
				f,
			)
		}
	}
}
