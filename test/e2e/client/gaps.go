package main

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gaps is a producer hook that measures the unavailability of partitions for writes: the longest
// time between two acknowledgements of one partition since the last mark. No other lock is acquired
// while its lock is held.
type gaps struct {
	mu     sync.Mutex
	topics map[string]map[int32]*gap // state, by topic and partition
	marked map[string]time.Time      // time of the last mark, by topic
}

// gap is the state of one partition.
type gap struct {
	last    time.Time // time of the last acknowledgement
	longest time.Duration
	began   time.Time // start of the longest gap
}

// extend updates the longest gap with the time from the last acknowledgement until now.
func (g *gap) extend(now time.Time) {
	if since := now.Sub(g.last); since > g.longest {
		g.longest, g.began = since, g.last
	}
}

// OnProduceRecordUnbuffered implements kgo.HookProduceRecordUnbuffered.
func (g *gaps) OnProduceRecordUnbuffered(record *kgo.Record, err error) {
	if err != nil {
		return
	}
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	partitions := g.topics[record.Topic]
	if partitions == nil {
		return
	}
	if known := partitions[record.Partition]; known != nil {
		known.extend(now)
		known.last = now
		return
	}
	partitions[record.Partition] = &gap{last: now}
}

// begin starts the measurement of a topic.
func (g *gaps) begin(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.topics[topic], g.marked[topic] = map[int32]*gap{}, time.Now()
}

// mark resets a topic's longest gaps. A gap that has not ended is still measured from its start.
func (g *gaps) mark(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.marked[topic] = time.Now()
	for _, known := range g.topics[topic] {
		known.longest = 0
	}
}

// longest returns the longest gap of each partition that has accepted a write. It also returns the
// time from the last mark to the start of this gap. Both are in milliseconds. While a stream is
// running, the time since a partition's last acknowledgement is a gap, too.
func (g *gaps) longest(topic string, streams bool) (all, began map[int32]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, began = map[int32]int64{}, map[int32]int64{}
	for partition, known := range g.topics[topic] {
		if streams {
			known.extend(time.Now())
		}
		all[partition], began[partition] = known.longest.Milliseconds(),
			known.began.Sub(g.marked[topic]).Milliseconds()
	}
	return all, began
}
