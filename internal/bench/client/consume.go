package client

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// quietMax is how long a run of what a topic holds waits for its next record. The end of a
// partition need not be reached: the last offsets of a compacted one may be without records.
const quietMax = 5 * time.Second

// Consume reads until all is read that was there (unless Latest), there are enough records, the
// time is up, or ctx ends. It uses no group: partitions are dealt out, so that no rebalance is
// measured.
func Consume(ctx context.Context, opts ConsumeOptions) (*Result, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if err := opts.ensure(ctx, 0); err != nil {
		return nil, err
	}
	spans, err := opts.spans(ctx)
	if err != nil {
		return nil, err
	}
	consumers, err := newConsumers(opts, spans)
	defer func() {
		for _, c := range consumers {
			c.client.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	result := &Result{Way: "consume", Topic: opts.Topic, Clients: len(consumers)}
	ctx, cancel := context.WithTimeout(ctx, opts.Duration)
	defer cancel()
	var running sync.WaitGroup
	begin, cpu := time.Now(), processTime()
	for _, c := range consumers {
		running.Go(func() { c.run(ctx, cancel, begin) })
	}
	running.Wait()
	parts := make([]*tally, len(consumers))
	for i, c := range consumers {
		parts[i] = c.tally
	}
	result.set(parts, lastOf(parts, begin).Sub(begin), processTime()-cpu)
	return result, nil
}

// consumer is one client and its partitions.
type consumer struct {
	opts   ConsumeOptions
	client *kgo.Client
	// partitions that are not read to their end, which is the value; nil with Latest
	left  map[int32]int64
	all   *atomic.Int64 // records of all consumers
	tally *tally
}

// newConsumers deals the partitions out; there are no more consumers than partitions. It returns
// what it made also with an error.
func newConsumers(opts ConsumeOptions, spans map[int32]span) ([]*consumer, error) {
	n := min(opts.Consumers, len(spans))
	dealt := make([]map[int32]kgo.Offset, n)
	left := make([]map[int32]int64, n)
	for i, partition := range slices.Sorted(maps.Keys(spans)) {
		to, at := i%n, spans[partition]
		if dealt[to] == nil {
			dealt[to], left[to] = map[int32]kgo.Offset{}, map[int32]int64{}
		}
		from := at.first
		if opts.Latest {
			from = at.end
		} else if at.first < at.end {
			left[to][partition] = at.end
		}
		dealt[to][partition] = kgo.NewOffset().At(from)
	}
	all := new(atomic.Int64)
	var made []*consumer
	for i := range n {
		client, err := opts.connect(
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{opts.Topic: dealt[i]}),
			kgo.FetchMaxWait(opts.MaxWait),
			kgo.FetchMaxBytes(int32(opts.MaxBytes)),
			kgo.FetchMaxPartitionBytes(int32(opts.MaxBytes)), kgo.BrokerMaxReadBytes(1<<30),
		)
		if err != nil {
			return made, err
		}
		made = append(made, &consumer{opts: opts, client: client, left: left[i], all: all,
			tally: newTally()})
	}
	return made, nil
}

// run polls until this consumer, or with enough every one, is done.
func (c *consumer) run(ctx context.Context, enough func(), begin time.Time) {
	for ctx.Err() == nil && (c.opts.Latest || len(c.left) > 0) {
		poll, stop := ctx, context.CancelFunc(func() {})
		if !c.opts.Latest {
			poll, stop = context.WithTimeout(ctx, quietMax)
		}
		fetches := c.client.PollFetches(poll)
		quiet := poll.Err() != nil
		stop()
		for _, fault := range fetches.Errors() {
			if !errors.Is(fault.Err, context.Canceled) &&
				!errors.Is(fault.Err, context.DeadlineExceeded) {
				c.tally.note(fault.Err)
			}
		}
		c.count(fetches, enough, begin)
		if quiet && fetches.NumRecords() == 0 {
			return
		}
	}
}

// count takes in what one poll brought.
func (c *consumer) count(fetches kgo.Fetches, enough func(), begin time.Time) {
	now := time.Now()
	for records := fetches.RecordIter(); !records.Done(); {
		r := records.Next()
		if end, ours := c.left[r.Partition]; !c.opts.Latest {
			if !ours {
				continue // came after the run began
			}
			if r.Offset+1 >= end {
				delete(c.left, r.Partition)
			}
		}
		total := c.all.Add(1)
		if c.opts.Records > 0 && total > c.opts.Records {
			return
		}
		c.tally.records++
		c.tally.bytes += int64(len(r.Key) + len(r.Value))
		c.tally.last = now
		// The age of a record that was there before says nothing of the broker.
		if due, ok := sentAt(r); ok && due.After(begin) {
			c.tally.latency.add(now.Sub(due))
		}
		if total == c.opts.Records {
			enough()
		}
	}
}

// sentAt reads when the producer's record was due; false if another made it.
func sentAt(r *kgo.Record) (time.Time, bool) {
	for _, h := range r.Headers {
		if h.Key == sentHeader && len(h.Value) == 8 {
			return time.Unix(0, int64(binary.BigEndian.Uint64(h.Value))), true
		}
	}
	return time.Time{}, false
}
