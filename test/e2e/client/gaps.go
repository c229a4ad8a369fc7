package main

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gaps measures for how long partitions take no writes: the longest time between two
// acknowledgements of one partition, since it was last marked. It is a hook of the producer. The
// lock is a leaf.
type gaps struct {
	mu     sync.Mutex
	topics map[string]map[int32]*gap // by topic and partition
	marked map[string]time.Time      // by topic
}

// gap is what is known of one partition.
type gap struct {
	last    time.Time // when a record was acknowledged
	longest time.Duration
	began   time.Time // when the longest did
}

// lasts counts the gap since the last record, which ends now or goes on.
func (g *gap) lasts(now time.Time) {
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
		known.lasts(now)
		known.last = now
		return
	}
	partitions[record.Partition] = &gap{last: now}
}

// begin forgets what was measured of a topic, and measures anew.
func (g *gaps) begin(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.topics[topic], g.marked[topic] = map[int32]*gap{}, time.Now()
}

// mark forgets how long the gaps were; one that lasts goes on.
func (g *gaps) mark(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.marked[topic] = time.Now()
	for _, known := range g.topics[topic] {
		known.longest = 0
	}
}

// longest is that of each partition that took a write, counted until now where it stands still, and
// how long after the last mark it began, all in milliseconds.
func (g *gaps) longest(topic string, streams bool) (all, began map[int32]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, began = map[int32]int64{}, map[int32]int64{}
	for partition, known := range g.topics[topic] {
		if streams {
			known.lasts(time.Now())
		}
		all[partition], began[partition] = known.longest.Milliseconds(),
			known.began.Sub(g.marked[topic]).Milliseconds()
	}
	return all, began
}
