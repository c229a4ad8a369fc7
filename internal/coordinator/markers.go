package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

const (
	// markersMax limits the number of markers in one request, so that the request stays below 1 MiB.
	markersMax = 2000
	// markerTimeout limits the duration of one request. The leader answers within a second, because it
	// does not wait longer for its followers.
	markerTimeout                    = 10 * time.Second
	markerDelayFirst, markerDelayMax = 20 * time.Millisecond, time.Second
	// absentMax is how long the topic of a marker must be missing before the marker counts as written.
	// Before that, the topic may still appear, because the metadata image may be older than the image
	// of the topic's leader.
	absentMax = time.Minute
)

// errNoLeader means that the partition has no leader; its markers wait for a newer metadata image.
var errNoLeader = errors.New("partition has no leader")

// markerSender writes the markers of this broker's transactions to their partitions. It repeats a
// marker until the marker has been written to the partition, or until the marker's shard ends; then
// the next coordinator sends the marker. For each broker there is a queue with one connection and
// one request in flight. Each request contains all markers that have arrived during the previous
// one.
type markerSender struct {
	opts    *TransactionOptions
	metrics txnMetrics
	ctx     context.Context //nolint:containedctx // canceled by close
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu     sync.Mutex
	queues map[int32]*markerQueue // queues by broker; NoBroker: partitions without a leader
}

// markerQueue contains the markers for the partitions that one broker leads. The sender's mutex
// guards waiting.
type markerQueue struct {
	sender  *markerSender
	broker  int32
	waiting []*markerItem
	wake    chan struct{} // channel with a buffer of one
}

// markerItem is a marker for one partition. The partition has not acknowledged it yet.
type markerItem struct {
	PartitionMarker
	sentMarker *sentMarker
	delay      time.Duration // time before the next attempt
	due        time.Time     // time of the next attempt
	// absent is the time since which the partition has been missing in the metadata image; zero if the
	// image contains it.
	absent time.Time
}

// sentMarker is the marker of one transaction.
type sentMarker struct {
	ctx    context.Context //nolint:containedctx // ends when the shard discards the transaction
	shard  *txnHandle
	marker *transaction.Marker
	began  time.Time
}

func newMarkerSender(opts *TransactionOptions, metrics txnMetrics) *markerSender {
	s := &markerSender{opts: opts, metrics: metrics, queues: map[int32]*markerQueue{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

func (s *markerSender) close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.tasks.Wait()
}

// send queues the marker of a transaction. It does not block.
func (s *markerSender) send(ctx context.Context, shard *txnHandle, m *transaction.Marker) {
	sent := &sentMarker{ctx, shard, m, time.Now()}
	items := make([]*markerItem, len(m.Partitions))
	for i, p := range m.Partitions {
		items[i] = &markerItem{sentMarker: sent, PartitionMarker: PartitionMarker{
			Partition: replica.PartitionID{Topic: p.Topic, Index: p.Index},
			Producer:  m.Producer, Commit: m.Commit, CoordinatorEpoch: shard.Epoch(),
			Version: m.Version,
		}}
	}
	s.metrics.pending.Add(float64(len(items)))
	s.route(s.opts.Image(), items)
}

// route queues markers for the leaders of their partitions.
func (s *markerSender) route(img *metadata.Image, items []*markerItem) {
	byLeader := map[int32][]*markerItem{}
	now := time.Now()
	for _, item := range items {
		leader, exists := leaderOf(img, item.Partition)
		switch {
		case exists || !s.opts.Reachable():
			item.absent = time.Time{}
		case item.absent.IsZero():
			item.absent = now
		}
		byLeader[leader] = append(byLeader[leader], item)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for leader, items := range byLeader {
		s.queueLocked(leader, items)
	}
}

func (s *markerSender) queueLocked(broker int32, items []*markerItem) {
	if s.ctx.Err() != nil {
		return
	}
	q := s.queues[broker]
	if q == nil {
		q = &markerQueue{sender: s, broker: broker, wake: make(chan struct{}, 1)}
		s.queues[broker] = q
		s.tasks.Go(q.run)
	}
	q.waiting = append(q.waiting, items...)
	q.wakeUp()
}

func (q *markerQueue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// leaderOf returns a partition's leader, or NoBroker, and reports whether the partition exists.
func leaderOf(img *metadata.Image, id replica.PartitionID) (leader int32, exists bool) {
	topic := img.Topic(id.Topic)
	if topic == nil || id.Index < 0 || int(id.Index) >= len(topic.Partitions) {
		return metadata.NoBroker, false
	}
	return topic.Partitions[id.Index].Leader, true
}

// apply processes a new metadata image: markers whose partition has another leader move to the new
// leader's queue and are sent at once.
func (s *markerSender) apply(img *metadata.Image) {
	s.mu.Lock()
	var moved []*markerItem
	for broker, q := range s.queues {
		kept := q.waiting[:0]
		for _, item := range q.waiting {
			if leader, _ := leaderOf(img, item.Partition); leader != broker {
				item.due = time.Time{}
				moved = append(moved, item)
				continue
			}
			kept = append(kept, item)
		}
		clear(q.waiting[len(kept):])
		q.waiting = kept
	}
	s.mu.Unlock()
	if len(moved) > 0 {
		s.route(img, moved)
	}
}

// run is the goroutine of a queue.
func (q *markerQueue) run() {
	var connection connector
	defer connection.close()
	timer := time.NewTimer(peerIdle)
	defer timer.Stop()
	for {
		items, wait := q.take(time.Now())
		if len(items) > 0 {
			q.attempt(&connection, items)
			continue
		}
		timer.Reset(wait)
		select {
		case <-q.sender.ctx.Done():
			return
		case <-q.wake:
		case <-timer.C:
			if wait == peerIdle && q.retire() {
				return
			}
		}
	}
}

// take returns the markers that are due. If none are due, it returns the time until the next one
// is.
func (q *markerQueue) take(now time.Time) (due []*markerItem, wait time.Duration) {
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	wait = peerIdle
	kept := q.waiting[:0]
	for _, item := range q.waiting {
		switch left := item.due.Sub(now); {
		case item.sentMarker.ctx.Err() != nil:
			q.sender.metrics.pending.Dec()
		case left <= 0 && len(due) < markersMax:
			due = append(due, item)
		default:
			kept = append(kept, item)
			wait = min(wait, max(left, 0))
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
	return due, wait
}

// retire removes an unused queue. It returns false if a marker has just arrived in the queue.
func (q *markerQueue) retire() bool {
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	if len(q.waiting) > 0 {
		return false
	}
	delete(q.sender.queues, q.broker)
	return true
}

// attempt sends markers once, and queues the markers again that were not written.
func (q *markerQueue) attempt(connection *connector, items []*markerItem) {
	markers := make([]PartitionMarker, len(items))
	for i, item := range items {
		markers[i] = item.PartitionMarker
	}
	errs := q.write(connection, markers)
	var again []*markerItem
	written := map[*sentMarker][]transaction.Partition{}
	now := time.Now()
	for i, item := range items {
		if q.sender.done(item, errs[i], now) {
			written[item.sentMarker] = append(written[item.sentMarker], transaction.Partition{
				Topic: item.Partition.Topic, Index: item.Partition.Index})
			continue
		}
		q.sender.metrics.retry(errs[i])
		item.delay = min(max(2*item.delay, markerDelayFirst), markerDelayMax)
		item.due = now.Add(item.delay)
		again = append(again, item)
	}
	for sentMarker, partitions := range written {
		q.sender.acknowledge(sentMarker, partitions, now)
	}
	q.sender.route(q.sender.opts.Image(), again)
}

// write sends markers to the queue's broker. It returns one error for each marker.
func (q *markerQueue) write(connection *connector, markers []PartitionMarker) []error {
	opts := q.sender.opts
	ctx, cancel := context.WithTimeout(q.sender.ctx, markerTimeout)
	defer cancel()
	if q.broker == opts.NodeID {
		return opts.WriteMarkers(ctx, markers)
	}
	to, known := opts.Image().Broker(q.broker)
	if !known {
		return all(len(markers), errNoLeader)
	}
	dialing, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	peer, err := connection.connect(dialing, opts, to)
	if err != nil {
		return all(len(markers), fmt.Errorf("connect to broker %d: %w", q.broker, err))
	}
	errs, err := peer.WriteMarkers(ctx, markers)
	if err != nil {
		connection.close()
		return all(len(markers), fmt.Errorf("write markers on broker %d: %w", q.broker, err))
	}
	if slices.ContainsFunc(errs, isFenced) {
		connection.close() // a later connection may have replaced this one
	}
	return errs
}

func isFenced(err error) bool { return errors.Is(err, logstore.ErrCoordinatorFenced) }

// done reports whether a marker needs no further attempt. If the log knows a later epoch of the
// producer, the log has already received the marker.
func (s *markerSender) done(item *markerItem, err error, now time.Time) bool {
	switch {
	case err == nil, errors.Is(err, logstore.ErrInvalidProducerEpoch):
		return true
	case item.absent.IsZero() || now.Sub(item.absent) < absentMax:
		return false
	}
	s.opts.Logger.Warn("topic of a transaction does not exist; its marker is not written",
		"transactionalID", item.sentMarker.marker.ID, "partition", item.Partition)
	return true
}

// acknowledge passes written markers to the shard of their transaction.
func (s *markerSender) acknowledge(sent *sentMarker, partitions []transaction.Partition,
	now time.Time) {
	s.metrics.pending.Sub(float64(len(partitions)))
	s.metrics.markerSeconds.Observe(now.Sub(sent.began).Seconds())
	runtime.Post(sent.ctx, sent.shard, func(now time.Time, shard *txnShard) transaction.Output {
		return shard.Acknowledged(now, sent.marker.ID, sent.marker.Serial, partitions)
	})
}
