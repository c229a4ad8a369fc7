package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

const (
	writers  = 3
	tailers  = 2
	keyCount = 12
	// hotKeys is the number of keys to which nearly all records belong. The other keys are idle for so
	// long that the cleaner removes their tombstones.
	hotKeys      = 6
	writeTimeout = 15 * time.Second // time limit for a write and its retries
	readTimeout  = 15 * time.Second
)

// client is a producer and consumer. Only its own goroutine uses its fields, except mu.
type client struct {
	w        *world
	id       int
	random   *rand.Rand
	known    map[string]int32 // latest leader epoch that the client knows, by topic
	tails    map[string]*tail
	producer int64
	next     map[string]int32 // next sequence number, by topic
	recent   map[string][]*batch
	peers    map[*liveBroker]*wire.Peer // connections to brokers
	values   int
	mu       struct {
		sync.Mutex
		reached map[string]int64 // position up to which the client has read, by topic
	}
}

func newClient(w *world, id int) *client {
	c := &client{
		w: w, id: id, random: rand.New(rand.NewPCG(w.seed, uint64(100+id))),
		known: map[string]int32{}, tails: map[string]*tail{}, peers: map[*liveBroker]*wire.Peer{},
	}
	for _, t := range w.meta.topics {
		c.tails[t.name] = newTail()
	}
	c.mu.reached = map[string]int64{}
	c.newProducer()
	return c
}

// newProducer gives the client a new producer id for idempotent writes.
func (c *client) newProducer() {
	c.producer += 1000
	if c.producer == 1000 {
		c.producer += int64(c.id)
	}
	c.next, c.recent = map[string]int32{}, map[string][]*batch{}
}

func (w *world) startClients() {
	for id := range writers {
		c := newClient(w, id)
		w.spawn(func() { c.write() })
	}
	for id := range tailers {
		c := newClient(w, writers+id)
		w.tails = append(w.tails, c)
		w.spawn(func() { c.tail() })
	}
	transactor, reader := newClient(w, writers+tailers), newClient(w, writers+tailers+1)
	w.spawn(transactor.transact)
	w.spawn(reader.tailCommitted)
}

func (w *world) stopWriters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.writersStopped = true
}

func (w *world) writersStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.writersStopped
}

// write produces, and sometimes reads, until the writers are stopped.
func (c *client) write() {
	for !c.w.writersStopped() && sleep(c.w.ctx,
		time.Duration(20+c.random.IntN(200))*time.Millisecond) == nil {
		t := c.w.meta.topics[c.random.IntN(len(c.w.meta.topics))]
		switch c.random.IntN(8) {
		case 0:
			if t.settings.Delete && c.random.IntN(3) == 0 {
				c.deleteRecords(t)
			}
			c.read(t)
		case 1:
			c.writeAcks1(t)
		case 2:
			c.repeatBatch(t)
		default:
			c.writeBatches(t)
		}
	}
}

// leader returns the leader according to a random broker's image. It ignores images that are older
// than the latest leader epoch that the client knows.
func (c *client) leader(t *topic) *liveBroker {
	var leader *liveBroker
	for _, index := range c.random.Perm(len(c.w.brokers)) {
		l := c.w.brokers[index].live.Load()
		if l == nil || l.dead.Load() {
			continue
		}
		image := l.image.Load()
		if image == nil || image.Topic(t.name) == nil {
			continue
		}
		p := image.Topic(t.name).Partitions[0]
		if p.LeaderEpoch < c.known[t.name] || p.Leader == metadata.NoBroker ||
			int(p.Leader) >= len(c.w.brokers) {
			continue
		}
		c.known[t.name] = p.LeaderEpoch
		leader = c.w.brokers[p.Leader].live.Load()
		if c.random.IntN(3) > 0 {
			break // otherwise another broker's image is used
		}
	}
	return leader
}

// batch is a batch that is being produced.
type batch struct {
	bytes   []byte
	records []logRecord // their offsets are set once known
	acked   bool
}

// newBatch creates a batch with one record per key. The batch is idempotent unless it will be sent
// with acks=1.
func (c *client) newBatch(t *topic, acks1 bool, keys ...string) *batch {
	identity := record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		LeaderEpoch: -1, LastOffsetDelta: int32(len(keys) - 1)}
	if !acks1 {
		identity.ProducerID, identity.ProducerEpoch, identity.BaseSequence = c.producer, 0,
			c.next[t.name]
		c.next[t.name] += int32(len(keys))
	}
	b := &batch{}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(identity)
	for i, key := range keys {
		c.values++
		f := logRecord{key: key, value: fmt.Sprintf("%d.%d.%s", c.id, c.values,
			padding[:c.random.IntN(len(padding))]), producer: identity.ProducerID, sequence: -1}
		f.timestamp = c.clock(t).UnixMilli()
		if !acks1 {
			f.sequence = identity.BaseSequence + int32(i)
		}
		r := record.Record{Offset: int64(i), Timestamp: f.timestamp, Key: []byte(key),
			Value: []byte(f.value)}
		if t.settings.Compact && key != barrierKey && c.random.IntN(deletedOneIn(key)) == 0 {
			r.Value, f.value, f.deleted = nil, "", true
		}
		builder.Add(&r)
		b.records = append(b.records, f)
	}
	bytes, err := builder.Build(nil)
	if err != nil {
		c.w.fail("build a batch: %v", err)
	}
	b.bytes = bytes
	return b
}

// deletedOneIn returns n if one in n records of a key is a tombstone. Rarely written keys have more
// tombstones, because only for these keys can a deleted value return after its tombstone was
// removed.
func deletedOneIn(key string) int {
	if key >= fmt.Sprintf("k%x", hotKeys) {
		return 2
	}
	return 7
}

const padding = "................................................................................................................................"

// clock returns a record's timestamp: usually the present time, but sometimes an earlier or later
// time. It returns no later time if the topic's records expire, because one record with a later
// timestamp would keep all following records.
func (c *client) clock(t *topic) time.Time {
	switch c.random.IntN(12) {
	case 0:
		return time.Now().Add(-time.Duration(c.random.IntN(7200)) * time.Second)
	case 1:
		if t.expires() {
			break
		}
		return time.Now().Add(time.Duration(c.random.IntN(600)) * time.Second)
	}
	return time.Now()
}

func (c *client) keys() []string {
	keys := make([]string, 1+c.random.IntN(3))
	for i := range keys {
		key := c.random.IntN(hotKeys)
		if c.random.IntN(8) == 0 {
			key += hotKeys
		}
		keys[i] = fmt.Sprintf("k%x", key)
	}
	return keys
}

// writeBatches produces up to three batches concurrently, and retries until they are acknowledged.
func (c *client) writeBatches(t *topic) {
	var batches []*batch
	for range 1 + c.random.IntN(3) {
		batches = append(batches, c.newBatch(t, false, c.keys()...))
	}
	c.deliver(t, batches)
}

// deliver sends batches until all are acknowledged or writeTimeout has passed. It reports whether
// all are acknowledged. A batch without an acknowledgement may be in the log, or may still arrive
// there.
func (c *client) deliver(t *topic, batches []*batch) (done bool) {
	called := time.Now()
	sent, left := 0, batches
	for len(left) > 0 && time.Since(called) < writeTimeout && c.w.ctx.Err() == nil {
		if l := c.leader(t); l != nil {
			sent = len(batches)
			c.send(l, t, left)
		}
		for len(left) > 0 && left[0].acked {
			left = left[1:]
		}
		if len(left) > 0 && sleep(c.w.ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	for i, b := range batches[:sent] {
		c.w.history.wrote(t.name, c.id, b.records, called, time.Now(), i < len(batches)-len(left))
	}
	if len(left) > 0 {
		c.newProducer()
		return false
	}
	c.remember(t, batches)
	return true
}

// send sends batches to a broker once, in order, and processes the responses.
func (c *client) send(l *liveBroker, t *topic, batches []*batch) {
	ctx, cancel := context.WithTimeout(c.w.ctx, 4*time.Second)
	defer cancel()
	if c.w.net.send(ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	var produced []*replica.PendingProduce
	for _, b := range batches {
		produced = append(produced, l.set.Append(replica.AcksAll, []replica.ProducePartition{
			{ID: t.partitionID(), Topic: t.id, Batch: slices.Clone(b.bytes)},
		}))
		if batches[0].records[0].sequence > 0 {
			// The log may be synced between two batches. A new leader that does not know the
			// producer would accept the second batch after another leader has refused the first one.
			c.w.power.pause()
		}
	}
	var acked []*batch
	for i, p := range produced {
		result := p.Wait(l.ctx, 3*time.Second)[0]
		switch {
		case result.Err == nil:
			batches[i].setOffsets(result.Appended.BaseOffset)
			acked = append(acked, batches[i])
			c.w.oracle.acknowledged(l, t.name, batches[i].records, result.Appended.Duplicate)
		case i == 0 && errors.Is(result.Err, logstore.ErrOutOfOrderSequence) && !l.dead.Load() &&
			!c.w.oracle.mayForget(t.name, &batches[0].records[0]):
			c.w.fail("%s: broker %d rejects record %d of producer %d: %v",
				t.name, l.id, batches[0].records[0].sequence, c.producer, result.Err)
		}
	}
	if l.dead.Load() || c.w.net.send(ctx, l.id, clients) != nil {
		return // the response is lost
	}
	for _, b := range acked {
		b.acked = true
	}
}

// setOffsets sets the offsets of the batch's records.
func (b *batch) setOffsets(base int64) {
	for i := range b.records {
		b.records[i].offset = base + int64(i)
	}
}

// writeAcks1 produces once with acks=1. The records can be lost.
func (c *client) writeAcks1(t *topic) {
	b := c.newBatch(t, true, c.keys()...)
	called := time.Now()
	l := c.leader(t)
	if l == nil || c.w.net.send(l.ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	l.set.Append(1, []replica.ProducePartition{{ID: t.partitionID(), Batch: b.bytes}}).Wait(l.ctx,
		time.Second)
	c.w.history.wrote(t.name, c.id, b.records, called, time.Now(), false)
}
