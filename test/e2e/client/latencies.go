package main

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// latencies is a producer hook that counts each topic's acknowledged records since the last mark,
// by latency. The latency is the time from the call that produced the record to the
// acknowledgement. No other lock is acquired while its lock is held.
type latencies struct {
	mu     sync.Mutex
	topics map[string]map[int64]int // number of records, by topic and latency in milliseconds
}

// OnProduceRecordUnbuffered implements kgo.HookProduceRecordUnbuffered. The client has set the
// record's timestamp, in milliseconds, when the record was produced.
func (l *latencies) OnProduceRecordUnbuffered(record *kgo.Record, err error) {
	if err == nil {
		l.add(record.Topic, time.Since(record.Timestamp))
	}
}

func (l *latencies) add(topic string, latency time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if counts := l.topics[topic]; counts != nil {
		counts[latency.Milliseconds()]++
	}
}

// mark begins a new measurement of a topic.
func (l *latencies) mark(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[topic] = map[int64]int{}
}

// measured returns the number of a topic's records, and the 50th and 99th percentiles of their
// latencies in milliseconds.
func (l *latencies) measured(topic string) (records int, p50, p99 int64) {
	l.mu.Lock()
	counts := maps.Clone(l.topics[topic])
	l.mu.Unlock()
	for _, count := range counts {
		records += count
	}
	below := 0
	for _, latency := range slices.Sorted(maps.Keys(counts)) {
		if 2*below < records {
			p50 = latency
		}
		if 100*below < 99*records {
			p99 = latency
		}
		below += counts[latency]
	}
	return records, p50, p99
}
