package console

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/cleanermap"
	"heartwood.dev/heartwood/internal/remote"
)

const (
	// watchesMax is the maximum number of topics that a console watches at the same time. It is below
	// the maximum of eight event streams per broker.
	watchesMax = 6
	// watchLinger is how long a topic is watched after its last viewer has left. It allows a page and
	// its stream of updates to share one watch.
	watchLinger = 10 * time.Second
	// pollInterval is how often a watch requests the brokers' reports.
	pollInterval = time.Second
	// snapshotMax is how long a page waits at most for the first events from all brokers.
	snapshotMax = 1500 * time.Millisecond
)

var errWatches = errors.New("other topics are being watched: close another page with a map")

// replicaID identifies a replica of a topic.
type replicaID struct {
	partition int32
	broker    int32
}

// watch keeps the cleaner map of one topic up to date while it has viewers. One goroutine per
// broker reads that broker's events, and another one polls the reports. All goroutines end when the
// watch's context ends.
type watch struct {
	topic string
	fleet *remote.Fleet

	mu struct {
		sync.Mutex
		logs    map[replicaID]*cleanermap.Log
		answers remote.Answers // the last reports
		polled  bool
		streams map[string]*stream // by address
		version int64              // number of changes
		changed chan struct{}      // closed at the next change
		// frames contains the frames for version framesOf, by URL. All viewers of the same URL share a
		// frame.
		frames   map[string]*mapFrame
		framesOf int64 // version of frames
	}
	wait *sync.WaitGroup // watches.wait

	// viewers and stop are guarded by watches.mu.
	viewers int
	stop    context.CancelFunc
	leaving *time.Timer // runs while there are no viewers
}

// stream is the state of one broker's event stream.
type stream struct {
	ready bool  // true once the snapshot is complete
	fault error // reason why there are no events, or nil
}

func newWatch(fleet *remote.Fleet, topic string, wait *sync.WaitGroup) *watch {
	w := &watch{topic: topic, fleet: fleet, wait: wait}
	w.mu.logs = map[replicaID]*cleanermap.Log{}
	w.mu.streams = map[string]*stream{}
	w.mu.changed = make(chan struct{})
	return w
}

// change calls update, which modifies the state, and then wakes the viewers.
func (w *watch) change(update func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	update()
	w.mu.version++
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
}

// poll requests the reports until ctx ends. It starts a goroutine for each new broker.
func (w *watch) poll(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		answers := w.fleet.Ask(ctx, []string{w.topic})
		if ctx.Err() != nil {
			return
		}
		w.change(func() {
			w.mu.answers, w.mu.polled = answers, true
			for _, address := range answers.Addresses {
				if w.mu.streams[address] == nil {
					w.mu.streams[address] = &stream{}
					w.wait.Go(func() { w.follow(ctx, address) })
				}
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow reads a broker's events until ctx ends. When the stream ends, it reconnects.
func (w *watch) follow(ctx context.Context, address string) {
	for ctx.Err() == nil {
		err := w.fleet.Events(ctx, address, w.topic, func(name string, data []byte) {
			w.apply(address, name, data)
		})
		w.change(func() {
			w.mu.streams[address].ready, w.mu.streams[address].fault = false, err
		})
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// apply applies one event. It ignores unknown kinds of events.
func (w *watch) apply(address, name string, data []byte) {
	var update func()
	switch name {
	case report.EventSegments:
		var event report.SegmentsEvent
		if json.Unmarshal(data, &event) == nil && event.Topic == w.topic {
			update = func() {
				w.logOf(event.Partition, event.Broker).ApplySegments(&event)
				if event.Gone {
					delete(w.mu.logs, replicaID{event.Partition, event.Broker})
				}
			}
		}
	case report.EventPass:
		var event report.PartitionPass
		if json.Unmarshal(data, &event) == nil && event.Topic == w.topic {
			update = func() { w.logOf(event.Partition, event.Broker).ApplyPass(&event) }
		}
	case report.EventStep:
		var event report.StepEvent
		if json.Unmarshal(data, &event) == nil && event.Topic == w.topic {
			update = func() { w.logOf(event.Partition, event.Broker).ApplyStep(&event) }
		}
	case report.EventReady:
		update = func() { w.mu.streams[address].ready, w.mu.streams[address].fault = true, nil }
	}
	if update != nil {
		w.change(update)
	}
}

func (w *watch) logOf(partition, broker int32) *cleanermap.Log {
	id := replicaID{partition, broker}
	if w.mu.logs[id] == nil {
		w.mu.logs[id] = &cleanermap.Log{}
	}
	return w.mu.logs[id]
}

// complete reports whether the reports and the snapshots of all brokers that respond have arrived.
func (w *watch) complete() bool {
	if !w.mu.polled {
		return false
	}
	for _, stream := range w.mu.streams {
		if !stream.ready && stream.fault == nil {
			return false
		}
	}
	return true
}

// unknown reports whether all brokers have responded and none of them knows the topic.
func (w *watch) unknown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := &w.mu.answers
	return w.mu.polled && len(answers.Unanswered) == 0 &&
		!slices.ContainsFunc(answers.Placement.Partitions,
			func(p report.PlacedPartition) bool { return p.Topic == w.topic })
}

// await waits until the watch is complete, but no longer than snapshotMax.
func (w *watch) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, snapshotMax)
	defer cancel()
	for {
		w.mu.Lock()
		done, changed := w.complete(), w.mu.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// current returns the frame for a view of the current state, the version of the state, and a
// channel that is closed at the next change.
func (w *watch) current(shown *mapView, now time.Time) (*mapFrame, int64, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.frames == nil || w.mu.framesOf != w.mu.version {
		w.mu.frames, w.mu.framesOf = map[string]*mapFrame{}, w.mu.version
	}
	key := shown.url("")
	if w.mu.frames[key] == nil {
		frame := frameOf(shown, &w.mu.answers, w.mu.logs, now)
		frame.Missing = missingText(w.missing())
		w.mu.frames[key] = frame
	}
	return w.mu.frames[key], w.mu.version, w.mu.changed
}

// missing returns the addresses of the brokers that have not responded, and of those whose event
// stream has ended and has not been reopened. The latter are included because a killed broker may
// restart in less than pollInterval.
func (w *watch) missing() (addresses []string) {
	for _, b := range w.mu.answers.Unanswered {
		addresses = append(addresses, b.Address)
	}
	for address, stream := range w.mu.streams {
		if stream.fault != nil && !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// with calls read with a replica's log, and reports whether the replica is known. read must not
// retain the log.
func (w *watch) with(partition, broker int32, read func(*cleanermap.Log)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.mu.logs[replicaID{partition, broker}]
	if log == nil {
		return false
	}
	read(log)
	return true
}

// watches contains the topics that a console watches.
type watches struct {
	fleet *remote.Fleet
	wait  sync.WaitGroup // goroutines of all watches

	mu struct {
		sync.Mutex
		byTopic map[string]*watch
		closed  bool
	}
}

// join returns the watch of a topic, which it starts if there is none. The caller must call leave
// once.
func (all *watches) join(topic string) (w *watch, leave func(), err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	w = all.mu.byTopic[topic]
	switch {
	case all.mu.closed:
		return nil, nil, errors.New("the console is stopping")
	case w == nil && len(all.mu.byTopic) >= watchesMax && !all.evict():
		return nil, nil, errWatches
	case w == nil:
		w = newWatch(all.fleet, topic, &all.wait)
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		w.wait.Go(func() { w.poll(ctx) })
		if all.mu.byTopic == nil {
			all.mu.byTopic = map[string]*watch{}
		}
		all.mu.byTopic[topic] = w
	}
	if w.leaving != nil {
		w.leaving.Stop()
		w.leaving = nil
	}
	w.viewers++
	return w, sync.OnceFunc(func() { all.leave(w) }), nil
}

// leave records that a viewer has left the watch. After the last viewer has left, the watch ends
// after watchLinger.
func (all *watches) leave(w *watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.viewers--; w.viewers > 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(watchLinger, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if w.leaving == timer {
			all.end(w)
		}
	})
	w.leaving = timer
}

// end stops a watch. The caller must hold all.mu.
func (all *watches) end(w *watch) {
	if all.mu.byTopic[w.topic] == w {
		delete(all.mu.byTopic, w.topic)
	}
	w.stop()
}

// evict ends one watch without viewers, and reports whether there was one. The caller must hold
// all.mu.
func (all *watches) evict() bool {
	for _, w := range all.mu.byTopic {
		if w.viewers == 0 {
			all.end(w)
			return true
		}
	}
	return false
}

// close ends all watches and waits for their goroutines.
func (all *watches) close() {
	all.mu.Lock()
	all.mu.closed = true
	for _, w := range all.mu.byTopic {
		all.end(w)
	}
	all.mu.Unlock()
	all.wait.Wait()
}
