package events

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/report"
)

const (
	// pollInterval is the minimum time between two polls of segment rows.
	pollInterval = time.Second
	// lingerTime is how long a hub continues to collect events after its last stream has ended. So a
	// client that reconnects in this time misses no event.
	lingerTime = 30 * time.Second
	// readInterval is the minimum time between two steps of kind read in the same pass.
	readInterval = 50 * time.Millisecond
	// streamsMax is the maximum number of concurrent streams.
	streamsMax = 8
	// topicsMax is the maximum number of topics whose segments are watched at once.
	topicsMax = 64
)

// Errors of Hub.Serve.
var (
	ErrTooManyStreams = errors.New("too many event streams: close one, and try again")
	ErrTooManyTopics  = errors.New("too many topics in event streams: give fewer topics")
)

// Source contains the functions with which a Hub reads the current state. They may be called
// concurrently.
type Source struct {
	// Segments returns the rows of all of a topic's replicas on the brokers of this process.
	Segments func(topic string) []report.Segments
	// Running returns the running passes on the given topics, or on all topics if topics is empty,
	// with their steps so far.
	Running func(topics []string) []report.PartitionPass
}

// Hub distributes events to streams.
type Hub struct {
	source Source
	epoch  string // part of event ids; differs after each start
	// active is set while the hub collects passes and steps.
	active atomic.Bool
	// polling contains one element while rows are computed. It acts as a lock for which a goroutine
	// can wait with a context.
	polling chan struct{}
	mu      struct {
		sync.Mutex
		ring    ring
		added   chan struct{} // closed when the next event is added
		streams int
		idle    time.Time // time since which there has been no stream
		polled  time.Time // time of the last poll
		topics  map[string]*watched
		reads   map[passKey]float64 // Step.After of the last step of kind read, by pass
	}
}

// watched is a topic whose rows are polled. Hub.mu guards streams and idle; Hub.polling guards the
// other fields.
type watched struct {
	since   int64 // number of the last event before the topic was watched
	rows    map[replicaKey]report.Segments
	streams int
	idle    time.Time // time since which no stream has requested the topic
}

type replicaKey struct {
	broker, partition int32
}

type passKey struct {
	broker int32
	id     int64
}

// NewHub returns a hub without streams.
func NewHub(source Source) *Hub {
	h := &Hub{source: source, epoch: rand.Text()[:8], polling: make(chan struct{}, 1)}
	h.mu.added = make(chan struct{})
	h.mu.topics = map[string]*watched{}
	h.mu.reads = map[passKey]float64{}
	return h
}

// Pass adds an event for a pass that has begun or ended. If there are no streams, it does nothing.
func (h *Hub) Pass(pass report.PartitionPass) {
	if !h.active.Load() {
		return
	}
	data, err := json.Marshal(&pass)
	if err != nil {
		return // only for numbers that are not finite, which a pass does not contain
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if pass.Ended != nil {
		delete(h.mu.reads, passKey{pass.Broker, pass.ID})
	}
	h.addLocked(report.EventPass, pass.Topic, data)
}

// Step adds an event for a step. If there are no streams, it does nothing.
func (h *Hub) Step(step report.StepEvent) {
	if !h.active.Load() {
		return
	}
	if step.Kind == report.StepRead && !h.admits(&step) {
		return
	}
	data, err := json.Marshal(&step)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(report.EventStep, step.Topic, data)
}

// admits reports whether enough time has passed between a step of kind read and the previous such
// step of the same pass.
func (h *Hub) admits(step *report.StepEvent) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := passKey{step.Broker, step.Pass}
	last, known := h.mu.reads[key]
	if known && step.After >= last && step.After-last < readInterval.Seconds() {
		return false
	}
	h.mu.reads[key] = step.After
	return true
}

// addLocked adds an event and wakes the streams. If there has been no stream for lingerTime, it
// stops collecting events instead.
func (h *Hub) addLocked(name, topic string, data []byte) {
	if h.mu.streams == 0 && time.Since(h.mu.idle) > lingerTime {
		h.active.Store(false)
		clear(h.mu.topics)
		clear(h.mu.reads)
		h.mu.ring = ring{last: h.mu.ring.last}
		return
	}
	h.mu.ring.add(name, topic, data)
	close(h.mu.added)
	h.mu.added = make(chan struct{})
}

// poll adds events for rows that have changed since the last poll. It does nothing if another
// stream has polled within pollInterval.
func (h *Hub) poll(now time.Time) {
	h.mu.Lock()
	due := now.Sub(h.mu.polled) >= pollInterval
	if due {
		h.mu.polled = now
	}
	h.mu.Unlock()
	if !due {
		return
	}
	select {
	case h.polling <- struct{}{}:
		defer func() { <-h.polling }()
	default:
		return // the rows are being computed; a later poll adds later changes
	}
	h.mu.Lock()
	topics := map[string]*watched{}
	for name, topic := range h.mu.topics {
		if topic.streams == 0 && now.Sub(topic.idle) > lingerTime {
			delete(h.mu.topics, name)
			continue
		}
		topics[name] = topic
	}
	h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		h.pollTopic(name, topics[name])
	}
}

// pollTopic adds events for a topic's rows that have changed. The caller must hold Hub.polling.
func (h *Hub) pollTopic(name string, topic *watched) {
	rows := byReplica(h.source.Segments(name))
	for _, key := range sortedKeys(rows) {
		now := rows[key]
		before, known := topic.rows[key]
		changed, removed := changes(before.Segments, now.Segments)
		if known && len(changed)+len(removed) == 0 && before.SegmentsOf == now.SegmentsOf {
			continue
		}
		for i, part := range parts(changed) {
			e := report.SegmentsEvent{SegmentsOf: now.SegmentsOf, Segments: part,
				Removed: []int64{}, Whole: !known && i == 0}
			if i == 0 {
				e.Removed = removed
			}
			h.addSegments(name, &e)
		}
	}
	for key, before := range topic.rows {
		if _, still := rows[key]; !still {
			h.addSegments(name, &report.SegmentsEvent{SegmentsOf: before.SegmentsOf, Whole: true,
				Gone: true, Segments: []report.Segment{}, Removed: []int64{}})
		}
	}
	topic.rows = rows
}

func (h *Hub) addSegments(topic string, e *report.SegmentsEvent) {
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(report.EventSegments, topic, data)
}

// parts divides rows into parts of at most report.SegmentsMax rows. It returns at least one part.
func parts(rows []report.Segment) [][]report.Segment {
	if len(rows) == 0 {
		return [][]report.Segment{{}}
	}
	return slices.Collect(slices.Chunk(rows, report.SegmentsMax))
}

func byReplica(all []report.Segments) map[replicaKey]report.Segments {
	rows := map[replicaKey]report.Segments{}
	for _, one := range all {
		rows[replicaKey{one.Broker, one.Partition}] = one
	}
	return rows
}

func sortedKeys(rows map[replicaKey]report.Segments) []replicaKey {
	return slices.SortedFunc(maps.Keys(rows), func(a, b replicaKey) int {
		if a.partition != b.partition {
			return int(a.partition) - int(b.partition)
		}
		return int(a.broker) - int(b.broker)
	})
}
