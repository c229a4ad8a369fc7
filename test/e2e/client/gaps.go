package main

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gaps measures for how long partitions take no writes: the longest time between two acknowledgements of one partition, since the
// topic's stream began. It is a hook of the producer. The lock is a leaf.
type gaps struct {
	mu     sync.Mutex
	topics map[string]*gap
}

// gap is what is known of one topic.
type gap struct {
	last    map[int32]time.Time // by partition
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
	of := g.topics[record.Topic]
	if of == nil {
		return
	}
	if last, ok := of.last[record.Partition]; ok {
		of.longest = max(of.longest, now.Sub(last))
	}
	of.last[record.Partition] = now
}

// begin forgets what was measured of a topic, and measures anew.
func (g *gaps) begin(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.topics[topic] = &gap{last: map[int32]time.Time{}}
}

// longest is that of the partition that stood longest, counted until now where it stands still.
func (g *gaps) longest(topic string, streams bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.topics[topic]
	if of == nil {
		return 0
	}
	longest := of.longest
	for _, last := range of.last {
		if streams {
			longest = max(longest, time.Since(last))
		}
	}
	return longest
}
