package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"heartwood.dev/heartwood/internal/replica"
)

// committedReader is a read_committed consumer of the outputs. exactlyOnce.mu guards its fields,
// except client.
type committedReader struct {
	e        *exactlyOnce
	client   *client
	received map[string]map[int64]string // received values, by topic and offset
	position map[string]int64
}

// tail starts to read the outputs as a read_committed consumer.
func (e *exactlyOnce) tail(random *rand.Rand) {
	r := &committedReader{e: e, client: newClient(e.w, 50), received: map[string]map[int64]string{},
		position: map[string]int64{}}
	r.client.random = random
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.readers = append(e.mu.readers, r)
	e.w.spawn(r.run)
}

func (r *committedReader) run() {
	for sleep(r.e.w.ctx, time.Duration(50+r.client.random.IntN(400))*time.Millisecond) == nil {
		for _, name := range outputTopics {
			if l := r.e.leader(name); l != nil {
				_ = r.client.request(l, func(ctx context.Context, l *liveBroker) error {
					return r.poll(ctx, l, name)
				})
			}
		}
	}
}

func (r *committedReader) poll(ctx context.Context, l *liveBroker, name string) error {
	tail := r.client.tails[name]
	visible, next, err := r.e.fetchCommitted(ctx, r.client, l, name, tail.offset)
	if err != nil || l.dead.Load() {
		return err
	}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if r.received[name] == nil {
		r.received[name] = map[int64]string{}
	}
	for _, f := range visible {
		r.received[name][f.offset] = f.value
	}
	tail.offset = max(tail.offset, next)
	r.position[name] = tail.offset
	return nil
}

// check compares the received values with the values that are visible at the end of the run.
func (r *committedReader) check(visible map[string][]logRecord) {
	for name, received := range r.received {
		final := map[int64]string{}
		for _, f := range visible[name] {
			final[f.offset] = f.value
			if got := received[f.offset]; f.offset < r.position[name] && got != f.value {
				r.e.w.fail("%s: a read_committed consumer at offset %d has received %q at offset %d, "+
					"where %s was committed", name, r.position[name], got, f.offset, f.value)
			}
		}
		for offset, value := range received {
			if final[offset] != value {
				r.e.w.fail("%s: a read_committed consumer received %s at offset %d, which was not "+
					"committed", name, value, offset)
			}
		}
	}
}

// fetchCommitted returns the records that a read_committed consumer receives in one fetch from an
// offset on, and the next offset.
func (e *exactlyOnce) fetchCommitted(ctx context.Context, c *client, l *liveBroker, name string,
	offset int64) (visible []logRecord, next int64, err error) {
	result, bytes, err := c.fetch(ctx, l, replica.FetchRequest{BytesMin: 1, BytesMax: 1 << 20,
		ReadCommitted: true, Partitions: []replica.FetchPartition{{
			ID: replica.PartitionID{Topic: name}, Offset: offset, BytesMax: 1 << 20,
			LeaderEpoch: -1, LastEpoch: -1}}})
	if err != nil || result.Diverging != nil {
		return nil, offset, err
	}
	var aborted []abortedTransaction
	if result.Data != nil {
		for _, a := range result.Data.Aborted {
			aborted = append(aborted, abortedTransaction{a.ProducerID, a.FirstOffset})
		}
	}
	all, next, _, err := committed(bytes, aborted)
	if err != nil {
		e.w.fail("%s: broker %d returned a malformed batch: %v", name, l.id, err)
		return nil, offset, err
	}
	for _, f := range all {
		if f.offset >= offset {
			visible = append(visible, f)
		}
	}
	return visible, next, nil
}

// allVisible returns the records that a read_committed consumer receives at the end of the run.
func (e *exactlyOnce) allVisible(l *liveBroker, name string) (all []logRecord) {
	c := newClient(e.w, 60)
	for offset := int64(0); ; {
		visible, next, err := e.fetchCommitted(e.w.ctx, c, l, name, offset)
		if err != nil {
			e.w.fail("%s: read at %d: %v", name, offset, err)
			return nil
		}
		if next <= offset {
			return all
		}
		all, offset = append(all, visible...), next
	}
}
