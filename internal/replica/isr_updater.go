package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/replica/isr"
)

// isrUpdater proposes ISR updates for the partitions that this broker leads, and sends them to the
// metadata store. One goroutine decides on all updates and sends the updates that remove replicas.
// Another goroutine sends the updates that add replicas, one batch at a time. A broker that returns
// joins the ISRs of thousands of partitions, which can take seconds. If another broker fails in
// that time, it must still be removed at once, because producers wait for it.
type isrUpdater struct {
	set       *Set
	changeISR ChangeISR // nil if only metadata images change the ISR
	cancel    context.CancelFunc
	done      chan struct{}
	// additions has capacity 1. Since additionsInFlight permits only one batch at a time, a send never
	// blocks.
	additions chan updateBatch
	wake      chan struct{} // capacity 1
	bulk      bulkRemovals
	mu        struct {
		sync.Mutex
		queue map[PartitionID]bool // partitions to evaluate
		all   bool                 // true if all partitions must be evaluated
		// additionsInFlight is set while a batch of updates that add replicas is being sent.
		additionsInFlight bool
		// outage combines updates that end without an answer, so that they are logged only once. While
		// the API server is down, a thousand partitions cause a thousand such updates a second.
		outage outage.State
	}
}

// proposedUpdate contains a partition whose ISR will be updated, and the role in which the update
// was proposed.
type proposedUpdate struct {
	partition *partition
	role      *role
}

// updateBatch is a batch of updates that are sent together.
type updateBatch struct {
	changes []metadata.ISRChange
	updates []proposedUpdate // proposals; updates[i] belongs to changes[i]
}

func (b *updateBatch) add(change metadata.ISRChange, update proposedUpdate) {
	b.changes, b.updates = append(b.changes, change), append(b.updates, update)
}

// withdraw discards the proposed updates, which are not sent.
func (b *updateBatch) withdraw() {
	for _, update := range b.updates {
		update.role.leaderState.withdraw()
	}
}

func (u *isrUpdater) start(s *Set, changeISR ChangeISR) {
	ctx, cancel := context.WithCancel(context.Background())
	u.set, u.changeISR, u.cancel = s, changeISR, cancel
	u.done, u.wake = make(chan struct{}), make(chan struct{}, 1)
	u.additions = make(chan updateBatch, 1)
	u.mu.queue = map[PartitionID]bool{}
	go func() {
		defer close(u.done)
		var sender sync.WaitGroup
		sender.Go(func() { u.sendAdditions(ctx) })
		defer sender.Wait()
		u.run(ctx)
	}()
}

func (u *isrUpdater) close() {
	u.cancel()
	<-u.done
}

// sendAdditions sends the batches of updates that only add replicas.
func (u *isrUpdater) sendAdditions(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-u.additions:
			u.send(ctx, batch)
			u.endAdditions()
		}
	}
}

func (u *isrUpdater) send(ctx context.Context, b updateBatch) {
	var updated atomic.Int64
	u.changeISR(ctx, b.changes,
		func(i int, partitionEpoch int64, err error) {
			if u.settle(b.updates[i], b.changes[i], partitionEpoch, err) {
				updated.Add(1)
			}
		})
	if n := updated.Load(); n > 0 {
		u.set.logger.Info("ISRs updated", "partitions", n)
	}
}

// enqueue makes the updater evaluate the given partitions soon, all in one evaluation.
func (u *isrUpdater) enqueue(ids ...PartitionID) {
	if len(ids) == 0 {
		return
	}
	u.mu.Lock()
	for _, id := range ids {
		u.mu.queue[id] = true
	}
	u.mu.Unlock()
	signal(u.wake)
}

// enqueueEach makes the updater evaluate the given partitions soon.
func (u *isrUpdater) enqueueEach(partitions []assignedPartition) {
	if len(partitions) == 0 {
		return
	}
	u.mu.Lock()
	for _, ap := range partitions {
		u.mu.queue[ap.id] = true
	}
	u.mu.Unlock()
	signal(u.wake)
}

// enqueueAll makes the updater evaluate every partition soon.
func (u *isrUpdater) enqueueAll() {
	u.mu.Lock()
	u.mu.all = true
	u.mu.Unlock()
	signal(u.wake)
}

// beginAdditions reports whether a batch of additions can be sent now, because none is in flight.
func (u *isrUpdater) beginAdditions() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.additionsInFlight {
		return false
	}
	u.mu.additionsInFlight = true
	return true
}

// endAdditions makes the updater evaluate all partitions again, because further additions may have
// been postponed during this batch.
func (u *isrUpdater) endAdditions() {
	u.mu.Lock()
	u.mu.additionsInFlight = false
	u.mu.Unlock()
	u.enqueueAll()
}

func (u *isrUpdater) takeQueue() (queue map[PartitionID]bool, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	queue, all = u.mu.queue, u.mu.all
	u.mu.queue, u.mu.all = map[PartitionID]bool{}, false
	return queue, all
}

// run evaluates partitions when they are enqueued. It also evaluates all partitions periodically,
// because a follower that stops fetching enqueues nothing. If the broker leads no replicated
// partition, the goroutine sleeps.
//
// Once the time of the next full evaluation is set, other evaluations do not postpone it. Otherwise
// a single follower could prevent all full evaluations. For example, a follower in controlled
// shutdown continues to fetch but may not join the ISR, so each of its fetches enqueues its
// partition. In all other partitions, followers that stopped fetching would then stay in the ISR.
func (u *isrUpdater) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for scheduled := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		case <-timer.C:
			scheduled = false
			u.enqueueAll()
		}
		if interval := u.evaluateQueue(ctx); interval > 0 && !scheduled {
			scheduled = true
			timer.Reset(interval)
		}
	}
}

// evaluateQueue evaluates the enqueued partitions and sends their updates. It returns the time
// until the next full evaluation, or 0 if none is needed.
func (u *isrUpdater) evaluateQueue(ctx context.Context) (interval time.Duration) {
	queue, all := u.takeQueue()
	s := u.set
	view := s.view.Load()
	if all {
		queue = map[PartitionID]bool{}
		for id := range view.partitions {
			queue[id] = true
		}
	}
	var removals, additions updateBatch
	for id := range queue {
		p := view.partitions[id]
		if p == nil {
			continue
		}
		r := p.role.Load()
		if r.leaderState == nil || len(r.replicas) < 2 {
			continue
		}
		interval = min(time.Duration(s.lagMax.Load())/4, isr.RetryDelay)
		now := time.Now()
		// The high watermark may have waited for a joining follower that has stopped fetching.
		if r.leaderState.advance(now) {
			s.highWatermarkAdvanced(p, r)
		}
		if u.changeISR == nil {
			continue
		}
		from, to, ok := r.leaderState.propose(now)
		if !ok {
			continue
		}
		change := metadata.ISRChange{Topic: p.topic, Partition: id.Index, LeaderEpoch: r.epoch,
			From: from, To: to}
		if len(to) > len(from) {
			additions.add(change, proposedUpdate{p, r})
		} else {
			removals.add(change, proposedUpdate{p, r})
		}
	}
	if wait, leave := u.bulk.leave(len(removals.changes), all, time.Now()); leave {
		removals.withdraw()
		if wait > 0 {
			time.AfterFunc(wait, u.enqueueAll)
		}
	} else if len(removals.changes) > 0 {
		u.send(ctx, removals)
	}
	if len(additions.changes) > 0 {
		u.offerAdditions(additions)
	}
	return interval
}

// offerAdditions sends additions if none are in flight. Otherwise it withdraws the additions;
// endAdditions makes the updater propose them again.
func (u *isrUpdater) offerAdditions(additions updateBatch) {
	if u.beginAdditions() {
		u.additions <- additions
		return
	}
	additions.withdraw()
}

// settle processes the outcome of an update, and reports whether it changed the ISR.
func (u *isrUpdater) settle(update proposedUpdate, change metadata.ISRChange,
	partitionEpoch int64, err error) (changed bool) {
	s, p, r := u.set, update.partition, update.role
	outcome := isr.Unknown
	switch {
	case err == nil:
		outcome = isr.Recorded
	case errors.Is(err, metadata.ErrISRConflict):
		outcome = isr.Conflict
	}
	now := time.Now()
	before, after, advanced := r.leaderState.settle(outcome, partitionEpoch, now)
	if outcome == isr.Conflict {
		u.enqueue(p.id)
	}
	u.logOutcome(p.id, change, outcome, err, now)
	if changed = !slices.Equal(before, after); changed {
		s.logger.Debug("ISR updated", "partition", p.id, "from", before, "to", after,
			"leaderEpoch", r.epoch)
		s.metrics.isrChanged(before, after)
	}
	if advanced || len(after) < len(before) {
		// This also wakes producers whose requests now fail because too few replicas are in sync.
		s.highWatermarkAdvanced(p, r)
	}
	return changed
}

// logOutcome logs why an update failed. A conflict is usual, because the operator may have changed
// the ISR first. An outage is logged only once for all partitions, and once more when it ends.
func (u *isrUpdater) logOutcome(id PartitionID, change metadata.ISRChange, outcome isr.Outcome,
	err error, now time.Time) {
	u.mu.Lock()
	begins, ends, failed := false, false, 0
	if outcome == isr.Unknown {
		begins = u.mu.outage.Fail(now)
	} else {
		failed, ends = u.mu.outage.Succeed()
	}
	u.mu.Unlock()
	brokers := func() []int32 {
		to := make([]int32, len(change.To))
		for i, m := range change.To {
			to[i] = m.Broker
		}
		return to
	}
	logger := u.set.logger
	switch {
	case begins:
		logger.Warn("failed to update ISR; further failures are not logged until an update succeeds",
			"partition", id, "from", change.From, "to", brokers(), "error", err)
	case ends:
		logger.Info("ISR updates succeed again", "failed", failed)
	}
	if outcome == isr.Conflict {
		logger.Debug("ISR update rejected: conflict", "partition", id, "from", change.From,
			"to", brokers(), "error", err)
	}
}

// processExited is called when a broker that answered a moment ago refuses connections. This
// indicates that the broker's process has exited, while producers still wait for it in every
// partition that it follows. The metadata show the exit too, but up to a second later if the
// kubelet must detect it.
func (s *Set) processExited(member metadata.InSync) {
	// Enqueue the partitions together, because the updater counts the removals of one evaluation
	// (bulkRemovals).
	var affected []PartitionID
	for id, p := range s.view.Load().partitions {
		if r := p.role.Load(); r.leaderState != nil && r.leaderState.processExited(member) {
			affected = append(affected, id)
		}
	}
	s.isrUpdater.enqueue(affected...)
	// If the broker fetches again, it is alive. Mark its partitions, so that its next fetch reads them
	// all and every partition's leaderState processes that fetch.
	s.sessions.markAllOf(member.Broker)
}
