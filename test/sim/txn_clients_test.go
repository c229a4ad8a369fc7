package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/group"
	txn "heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// txnClient is a transactional producer that uses one transaction version. Only its own goroutine
// uses it.
type txnClient struct {
	e        *exactlyOnce
	w        *world
	id       string // transactional id
	version  int16
	random   *rand.Rand
	producer txn.Producer     // negative ID: not initialized
	next     map[string]int32 // next sequence number, by topic
	values   int
	number   uint64
	// connection is the number of the client's connection to the coordinator.
	connection uint64
}

func (e *exactlyOnce) newClient(id string, version int16, number uint64) *txnClient {
	return &txnClient{e: e, w: e.w, id: id, version: version, number: number,
		random: rand.New(rand.NewPCG(e.w.seed, number)), producer: txn.Producer{ID: -1},
		next: map[string]int32{}}
}

var errNoLeader = errors.New("no leader")

// exchange sends one request to a topic's leader. If the response takes too long, the client
// continues without it, and the request may arrive late. A client below transaction version 2
// always waits for the response. In these versions, a late request of one transaction can end the
// next transaction, even in Kafka.
func (c *txnClient) exchange(topic string, do func(context.Context, *liveBroker) error) error {
	l := c.e.leader(topic)
	if l == nil {
		return errNoLeader
	}
	done := make(chan error, 1)
	c.w.spawn(func() { done <- c.deliver(l, do) })
	timeout := time.After(4 * time.Second)
	if c.version < txn.EpochBumpVersion {
		timeout = nil
	}
	select {
	case err := <-done:
		return err
	case <-timeout:
		c.connection++ // the client reconnects
		return errLost
	case <-c.w.ctx.Done():
		return c.w.ctx.Err()
	}
}

// deliver sends a request to a broker and waits for the response.
func (c *txnClient) deliver(l *liveBroker, do func(context.Context, *liveBroker) error) error {
	if err := c.w.net.send(c.w.ctx, clients, l.id); err != nil {
		return err
	}
	if l.dead.Load() {
		return errLost
	}
	err := do(l.ctx, l)
	if lost := c.w.net.send(c.w.ctx, l.id, clients); lost != nil || l.dead.Load() {
		return errLost
	}
	return err
}

// sendOnly sends a request over a connection that breaks. The request arrives, at once or some time
// later, but the client gets no response.
func (c *txnClient) sendOnly(topic string, do func(context.Context, *liveBroker) error) error {
	if l := c.e.leader(topic); l != nil {
		late := time.Duration(max(0, c.random.IntN(1000)-500)) * time.Millisecond
		c.w.spawn(func() {
			if sleep(c.w.ctx, late) == nil {
				_ = c.deliver(l, do)
			}
		})
	}
	return errLost
}

// retry repeats a request until it succeeds, fails permanently, or the time is over. It reports
// whether an earlier response was lost.
func (c *txnClient) retry(topic string, limit time.Duration,
	do func(context.Context, *liveBroker) error) (lost bool, err error) {
	for until := time.Now().Add(limit); ; {
		err = c.exchange(topic, do)
		if err == nil || isFinal(err) || time.Now().After(until) || c.w.ctx.Err() != nil {
			return lost, err
		}
		lost = lost || !errors.Is(err, errNoLeader)
		if sleep(c.w.ctx, 50*time.Millisecond) != nil {
			return lost, c.w.ctx.Err()
		}
	}
}

// initialize gets a producer id and epoch. This fences the client's other instances.
func (c *txnClient) initialize() bool {
	for !c.w.writersStopped() && c.w.ctx.Err() == nil {
		c.connection++
		var got txn.Producer
		answers := make(chan txn.Producer, 1)
		err := c.exchange(metadata.TransactionsTopic,
			func(ctx context.Context, l *liveBroker) error {
				p, err := l.transactions.Init(ctx, txn.Init{ID: c.id,
					Timeout: transactionTimeout, Connection: c.connectionNumber(),
					Expected: txn.Producer{ID: -1, Epoch: -1}})
				answers <- p
				return err
			})
		if err == nil {
			got = <-answers
			c.setProducer(got)
			return true
		}
		if sleep(c.w.ctx, 100*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

// connectionNumber returns a number that is larger than the numbers of all clients' earlier
// connections.
func (c *txnClient) connectionNumber() uint64 {
	return uint64(time.Since(c.w.begin))<<8 | c.number&0xff
}

func (c *txnClient) setProducer(p txn.Producer) {
	if p != c.producer {
		c.next = map[string]int32{}
	}
	c.producer = p
}

// append appends a batch to a topic, as part of the transaction if the batch is transactional.
// Occasionally the producer's connection breaks; the client then retries or returns an error.
func (c *txnClient) append(topic string, batch []byte) error {
	produce := func(ctx context.Context, l *liveBroker) error {
		batches := []replica.ProducePartition{{ID: replica.PartitionID{Topic: topic},
			Batch: slices.Clone(batch)}}
		transaction := replica.Transaction{ID: c.id, Add: c.version >= txn.EpochBumpVersion}
		return l.set.AppendTransactional(ctx, transaction, batches).Wait(ctx, 3*time.Second)[0].Err
	}
	if c.producer.ID >= 0 && c.random.IntN(15) == 0 {
		if err := c.sendOnly(topic, produce); c.random.IntN(2) == 0 {
			return err
		}
	}
	_, err := c.retry(topic, writeTimeout, produce)
	return err
}

func (c *txnClient) plainBatch(value string) []byte {
	sequence := c.next["plain"]
	c.next["plain"]++
	return c.build(record.Identity{ProducerID: 1, BaseSequence: sequence}, value)
}

func (c *txnClient) batch(topic, value string) []byte {
	sequence := c.next[topic]
	c.next[topic]++
	return c.build(record.Identity{ProducerID: c.producer.ID, ProducerEpoch: c.producer.Epoch,
		BaseSequence: sequence, Transactional: true}, value)
}

func (c *txnClient) build(id record.Identity, value string) []byte {
	id.LeaderEpoch = -1
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(id)
	builder.Add(&record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(value),
		Value: []byte(value)})
	bytes, err := builder.Build(nil)
	if err != nil {
		c.w.fail("build a batch: %v", err)
	}
	return bytes
}

// add adds partitions to the transaction. It is needed below transaction version 2.
func (c *txnClient) add(topics ...string) error {
	if c.version >= txn.EpochBumpVersion {
		return nil
	}
	var partitions []txn.Partition
	for _, topic := range topics {
		partitions = append(partitions, txn.Partition{Topic: topic})
	}
	connection := c.connectionNumber()
	_, err := c.retry(metadata.TransactionsTopic, writeTimeout,
		func(ctx context.Context, l *liveBroker) error {
			_, err := l.transactions.Add(ctx, txn.Add{ID: c.id, Producer: c.producer,
				Partitions: partitions, Version: c.version, Connection: connection})
			return err
		})
	return err
}

// end ends the transaction. If the outcome stays unknown or the producer is fenced, the client must
// initialize again.
func (c *txnClient) end(tx *sentTransaction, commit bool) {
	if commit {
		c.e.set(tx, unknownOutcome)
	}
	producer, connection := c.producer, c.connectionNumber()
	answers := make(chan txn.Producer, 1000)
	lost, err := c.retry(metadata.TransactionsTopic, time.Minute,
		func(ctx context.Context, l *liveBroker) error {
			p, err := l.transactions.End(ctx, txn.End{ID: c.id, Producer: producer,
				Commit: commit, Version: c.version, Connection: connection})
			if err == nil {
				answers <- p
			}
			return err
		})
	switch {
	case err == nil && commit:
		c.e.set(tx, isCommitted)
	case commit && isFinal(err) && !lost:
		c.e.set(tx, notCommitted)
	}
	if err != nil {
		c.producer.ID = -1
		return
	}
	c.setProducer(<-answers)
}

// write runs one transaction after the other. In each transaction, it appends unique values to some
// topics.
func (c *txnClient) write() {
	for !c.w.writersStopped() && sleep(c.w.ctx,
		time.Duration(50+c.random.IntN(400))*time.Millisecond) == nil {
		if c.producer.ID < 0 && !c.initialize() {
			return
		}
		topics := slices.Clone(outputTopics)
		c.random.Shuffle(len(topics), func(i, j int) { topics[i], topics[j] = topics[j], topics[i] })
		topics = topics[:1+c.random.IntN(len(topics))]
		tx := c.e.begin(c.id)
		err := c.add(topics...)
		for i := 0; i < len(topics)*2 && err == nil; i++ {
			c.values++
			value := fmt.Sprintf("%s-%d-%d", c.id, c.number, c.values)
			tx.values = append(tx.values, value)
			err = c.append(topics[i%len(topics)], c.batch(topics[i%len(topics)], value))
			_ = sleep(c.w.ctx, time.Duration(c.random.IntN(300))*time.Millisecond)
		}
		c.finish(tx, err, c.random.IntN(4) > 0)
	}
}

// finish ends a transaction after its last append. err is the result of this append.
func (c *txnClient) finish(tx *sentTransaction, err error, commit bool) {
	if err != nil && (isFinal(err) || c.random.IntN(2) == 0) {
		c.producer.ID = -1 // the next Init or the timeout aborts the transaction
		return
	}
	if c.end(tx, commit && err == nil); err != nil {
		c.producer.ID = -1 // the next sequence numbers are unknown
	}
}

// copy copies the input to the outputs, with the input's offsets. Two instances with the same
// transactional id take turns, and fence each other.
func (c *txnClient) copy() {
	for !c.w.writersStopped() && sleep(c.w.ctx,
		time.Duration(c.random.IntN(3000))*time.Millisecond) == nil {
		if !c.initialize() {
			return
		}
		for range 1 + c.random.IntN(6) {
			if c.producer.ID < 0 || c.w.writersStopped() {
				break
			}
			offset, ok := c.position()
			if !ok || offset >= inputRecords {
				break
			}
			c.copySome(offset)
		}
	}
}

// position returns the committed offset of the input. It waits until this offset is stable.
func (c *txnClient) position() (offset int64, ok bool) {
	answers := make(chan int64, 1000)
	_, err := c.retry(coordinator.OffsetsTopic, writeTimeout,
		func(ctx context.Context, l *liveBroker) error {
			found, unstable, err := l.groups.CommittedFor(ctx, copyGroup, group.Reader{Epoch: -1},
				[]group.TopicPartition{{Topic: "in"}})
			if err == nil && unstable[0] {
				err = group.ErrUnstable
			}
			if err == nil {
				answers <- found[0].Offset.Offset
			}
			return err
		})
	if err != nil {
		return 0, false
	}
	return max(0, <-answers), true
}

// copySome copies some input records in one transaction.
func (c *txnClient) copySome(offset int64) {
	tx := c.e.begin(c.id)
	to := min(offset+1+c.random.Int64N(3), inputRecords)
	topic := outputTopics[c.random.IntN(len(outputTopics))]
	var err error
	for i := offset; i < to && err == nil; i++ {
		err = c.append(topic, c.batch(topic, fmt.Sprintf("copy-%d", i)))
	}
	if err == nil {
		err = c.commitOffset(to)
	}
	c.finish(tx, err, c.random.IntN(6) > 0)
}

func (c *txnClient) commitOffset(offset int64) error {
	producer := c.producer
	_, err := c.retry(coordinator.OffsetsTopic, writeTimeout,
		func(ctx context.Context, l *liveBroker) error {
			errs, err := l.groups.CommitTransactional(ctx, coordinator.TransactionalCommit{
				Transaction: replica.Transaction{ID: c.id, Add: true}, ProducerID: producer.ID,
				ProducerEpoch: producer.Epoch,
				Commit: group.Commit{Group: copyGroup, Generation: -1,
					Offsets: []group.CommitOffset{{Topic: "in", Offset: group.Offset{
						Offset: offset, LeaderEpoch: -1, ExpireMs: -1}}}}})
			if err == nil {
				err = errs[0]
			}
			return err
		})
	return err
}
