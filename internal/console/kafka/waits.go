package kafka

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Limits on AddWaits.
const (
	waitsMax     = 100 // maximum number of committed offsets whose next record is read
	waitsAtOnce  = 8
	waitsTimeout = 2 * time.Second
	// waitBatches is the maximum number of batches that are read to find the record after one offset.
	// In a compacted topic, the batches at and after an offset may no longer contain any record.
	waitBatches = 4
)

// Wait returns the age of the oldest record that the group has not read yet, or 0 if there is none.
// It returns false if the age is unknown.
func (o *GroupOffset) Wait(now time.Time) (time.Duration, bool) {
	lag, known := o.Lag()
	switch {
	case !known:
		return 0, false
	case lag == 0:
		return 0, true
	case o.Next.IsZero():
		return 0, false
	}
	return max(0, now.Sub(o.Next)), true
}

// Wait returns the longest known wait of the group's partitions. complete reports whether the wait
// is known for every partition whose lag is known.
func (g *Group) Wait(now time.Time) (longest time.Duration, complete bool) {
	complete = true
	for i := range g.Offsets {
		o := &g.Offsets[i]
		if _, known := o.Lag(); !known {
			continue
		}
		wait, known := o.Wait(now)
		longest, complete = max(longest, wait), complete && known
	}
	return longest, complete
}

// Below returns the number of partitions whose committed offset is below the start of the log.
func (g *Group) Below() (n int) {
	for i := range g.Offsets {
		if g.Offsets[i].BelowStart() {
			n++
		}
	}
	return n
}

// position is an offset in a partition.
type position struct {
	partition
	offset int64
}

// AddWaits sets GroupOffset.Next for partitions with lag, by reading their next records. It reads
// at most the waitsMax partitions with the largest lag, for at most waitsTimeout. For all others,
// and for partitions whose next record cannot be read, Next remains unknown.
func (c *Client) AddWaits(ctx context.Context, groups []Group) {
	asked := map[position][]*GroupOffset{}
	lags := map[position]int64{}
	topics := map[string]bool{}
	for i := range groups {
		for index := range groups[i].Offsets {
			o := &groups[i].Offsets[index]
			if lag, known := o.Lag(); known && lag > 0 {
				p := position{partition{o.Topic, o.Partition}, max(o.Committed, o.Start)}
				asked[p], lags[p] = append(asked[p], o), lag
				topics[o.Topic] = true
			}
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waitsTimeout)
	defer cancel()
	meta, err := c.admin.Metadata(ctx, slices.Collect(maps.Keys(topics))...)
	if err != nil {
		return
	}
	order := slices.SortedFunc(maps.Keys(asked), func(a, b position) int {
		return cmp.Or(cmp.Compare(lags[b], lags[a]), cmp.Compare(a.topic, b.topic),
			cmp.Compare(a.index, b.index), cmp.Compare(a.offset, b.offset))
	})
	order = order[:min(len(order), waitsMax)]
	next := make([]time.Time, len(order))
	slots := make(chan struct{}, waitsAtOnce)
	var reads sync.WaitGroup
	for i, p := range order {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			next[i] = c.timeAfter(ctx, meta.Topics[p.topic], p)
		})
	}
	reads.Wait()
	for i, p := range order {
		for _, o := range asked[p] {
			o.Next = next[i]
		}
	}
}

// timeAfter returns the timestamp of the first committed record at or after a position, or the zero
// time if no record was found.
func (c *Client) timeAfter(ctx context.Context, topic kadm.TopicDetail, p position) time.Time {
	if topic.Err != nil {
		return time.Time{}
	}
	b := &browse{client: c.client, topic: topic, query: Query{Topic: p.topic},
		budget: budget{decompressedMax / waitsAtOnce}, oneBatch: true}
	for offset, n := p.offset, 0; n < waitBatches; n++ {
		records, next, err := b.fetch(ctx, p.index, offset)
		found := slices.IndexFunc(records, func(r *kgo.Record) bool { return r.Offset >= p.offset })
		if found >= 0 {
			return records[found].Timestamp
		}
		if err != nil || next <= offset {
			return time.Time{}
		}
		offset = next
	}
	return time.Time{}
}
