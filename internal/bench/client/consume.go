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

// idleTimeout is the time without records after which a consumer stops, except with Latest. The
// consumer may never reach the end offset, because the last offsets of a compacted partition may
// have no records.
const idleTimeout = 5 * time.Second

// Consume reads until opts.Duration has passed, ctx ends, or it has read opts.Records records.
// Without Latest it also stops when it has read all records that existed at the start. It uses no
// consumer group, so that no rebalance is measured.
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
	result.set(parts, lastEvent(parts, begin).Sub(begin), processTime()-cpu)
	return result, nil
}

// consumer is a client with the partitions that it reads.
type consumer struct {
	opts   ConsumeOptions
	client *kgo.Client
	// left contains the end offsets of the partitions that have not been read completely yet. It is
	// empty with Latest.
	left  map[int32]int64
	all   *atomic.Int64 // number of records that all consumers have read
	tally *tally
}

// newConsumers creates the consumers, at most one for each partition, and distributes the
// partitions among them. If it fails, it also returns the consumers that it has created.
func newConsumers(opts ConsumeOptions, spans map[int32]span) ([]*consumer, error) {
	n := min(opts.Consumers, len(spans))
	assigned := make([]map[int32]kgo.Offset, n)
	left := make([]map[int32]int64, n)
	for i, partition := range slices.Sorted(maps.Keys(spans)) {
		to, span := i%n, spans[partition]
		if assigned[to] == nil {
			assigned[to], left[to] = map[int32]kgo.Offset{}, map[int32]int64{}
		}
		from := span.first
		if opts.Latest {
			from = span.end
		} else if span.first < span.end {
			left[to][partition] = span.end
		}
		assigned[to][partition] = kgo.NewOffset().At(from)
	}
	all := new(atomic.Int64)
	var created []*consumer
	for i := range n {
		client, err := opts.connect(
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{opts.Topic: assigned[i]}),
			kgo.FetchMaxWait(opts.MaxWait),
			kgo.FetchMaxBytes(int32(opts.MaxBytes)),
			kgo.FetchMaxPartitionBytes(int32(opts.MaxBytes)), kgo.BrokerMaxReadBytes(1<<30),
		)
		if err != nil {
			return created, err
		}
		created = append(created, &consumer{opts: opts, client: client, left: left[i], all: all,
			tally: newTally()})
	}
	return created, nil
}

// run polls until this consumer has read its partitions to their end offsets or has received no
// record for idleTimeout; with Latest it polls until ctx ends. When all consumers together have
// read opts.Records records, it calls the parameter enough, which ends the run.
func (c *consumer) run(ctx context.Context, enough func(), begin time.Time) {
	for ctx.Err() == nil && (c.opts.Latest || len(c.left) > 0) {
		poll, stop := ctx, context.CancelFunc(func() {})
		if !c.opts.Latest {
			poll, stop = context.WithTimeout(ctx, idleTimeout)
		}
		fetches := c.client.PollFetches(poll)
		idle := poll.Err() != nil
		stop()
		for _, fault := range fetches.Errors() {
			if !errors.Is(fault.Err, context.Canceled) &&
				!errors.Is(fault.Err, context.DeadlineExceeded) {
				c.tally.addError(fault.Err)
			}
		}
		c.count(fetches, enough, begin)
		if idle && fetches.NumRecords() == 0 {
			return
		}
	}
}

// count adds the records of one poll to the tally.
func (c *consumer) count(fetches kgo.Fetches, enough func(), begin time.Time) {
	now := time.Now()
	for records := fetches.RecordIter(); !records.Done(); {
		r := records.Next()
		if end, ours := c.left[r.Partition]; !c.opts.Latest {
			if !ours {
				continue // this partition's records from before the run were all read
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
		c.opts.count()
		c.tally.bytes += int64(len(r.Key) + len(r.Value))
		c.tally.last = now
		// Ignore records that were due before the run; their latency would include the time before the
		// run started.
		if due, ok := dueAt(r); ok && due.After(begin) {
			c.tally.latency.add(now.Sub(due))
		}
		if total == c.opts.Records {
			enough()
		}
	}
}

// dueAt returns the time at which a record was due. It returns false if `heartwood bench produce`
// did not send the record.
func dueAt(r *kgo.Record) (time.Time, bool) {
	for _, h := range r.Headers {
		if h.Key == dueHeader && len(h.Value) == 8 {
			return time.Unix(0, int64(binary.BigEndian.Uint64(h.Value))), true
		}
	}
	return time.Time{}, false
}
