package main

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gaps measures for how long partitions take no writes: the longest time between two acknowledgements of one partition, since it was
// last marked. It is a hook of the producer. The lock is a leaf.
type gaps struct {
	mu     sync.Mutex
	topics map[string]map[int32]*gap // by topic and partition
}

// gap is what is known of one partition.
type gap struct {
	last    time.Time // when a record was acknowledged
	longest time.Duration
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
		known.longest, known.last = max(known.longest, now.Sub(known.last)), now
		return
	}
	partitions[record.Partition] = &gap{last: now}
}

// begin forgets what was measured of a topic, and measures anew.
func (g *gaps) begin(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.topics[topic] = map[int32]*gap{}
}

// mark forgets how long the gaps were; one that lasts goes on.
func (g *gaps) mark(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, known := range g.topics[topic] {
		known.longest = 0
	}
}

// longest is that of each partition that took a write, in milliseconds, counted until now where it stands still.
func (g *gaps) longest(topic string, streams bool) map[int32]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[int32]int64{}
	for partition, known := range g.topics[topic] {
		longest := known.longest
		if streams {
			longest = max(longest, time.Since(known.last))
		}
		all[partition] = longest.Milliseconds()
	}
	return all
}
