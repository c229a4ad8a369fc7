package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// reviews is the goroutine that decides on changes of in-sync replicas, the only one that does, and
// has them made. Those that only take replicas in are made by another, one batch at a time: a
// broker that is back joins the sets of thousands of partitions, which may take seconds, and one
// that dies meanwhile must be dropped at once, as producers wait for it.
type reviews struct {
	cancel context.CancelFunc
	done   chan struct{}
	joins  chan changeBatch // holds one, and never more than is asked for
	wake   chan struct{}    // holds one
	mu     struct {
		sync.Mutex
		due map[PartitionID]bool // to be looked at
		all bool                 // every partition is
		// joining: replicas are being taken in.
		joining bool
		// outage is of changes that end without an answer: without the API server each of a
		// thousand partitions has one a second.
		outage outage.State
	}
}

// changeBatch is changes that are asked for together, and whose they are.
type changeBatch struct {
	changes []metadata.ISRChange
	of      []proposed
}

func (b *changeBatch) add(change metadata.ISRChange, of proposed) {
	b.changes, b.of = append(b.changes, change), append(b.of, of)
}

func (s *Set) startReviews() {
	ctx, cancel := context.WithCancel(context.Background())
	s.reviews.cancel, s.reviews.done, s.reviews.wake = cancel, make(chan struct{}),
		make(chan struct{}, 1)
	s.reviews.joins = make(chan changeBatch, 1)
	s.reviews.mu.due = map[PartitionID]bool{}
	go func() {
		defer close(s.reviews.done)
		var joining sync.WaitGroup
		joining.Go(func() { s.join(ctx) })
		defer joining.Wait()
		s.review(ctx)
	}()
}

// join makes the changes that only take replicas in.
func (s *Set) join(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case joins := <-s.reviews.joins:
			s.ask(ctx, joins)
			s.reviews.joined()
		}
	}
}

// ask has changes made.
func (s *Set) ask(ctx context.Context, b changeBatch) {
	s.changeISR(ctx, b.changes, func(i int, err error) { s.changed(b.of[i], b.changes[i], err) })
}

func (r *reviews) close() {
	r.cancel()
	<-r.done
}

// want has a partition looked at soon.
func (r *reviews) want(id PartitionID) {
	r.mu.Lock()
	r.mu.due[id] = true
	r.mu.Unlock()
	signal(r.wake)
}

// wantAll has every partition looked at soon.
func (r *reviews) wantAll() {
	r.mu.Lock()
	r.mu.all = true
	r.mu.Unlock()
	signal(r.wake)
}

// beginJoins tells whether replicas may be taken in: none are being taken in.
func (r *reviews) beginJoins() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.joining {
		return false
	}
	r.mu.joining = true
	return true
}

// joined takes in that they have been. There may be others, which had to wait.
func (r *reviews) joined() {
	r.mu.Lock()
	r.mu.joining = false
	r.mu.Unlock()
	r.wantAll()
}

// take returns what is due.
func (r *reviews) take() (due map[PartitionID]bool, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due, all = r.mu.due, r.mu.all
	r.mu.due, r.mu.all = map[PartitionID]bool{}, false
	return due, all
}

// review looks at partitions when something of them has changed, and at all of them now and then: a
// follower that says nothing any more changes nothing. A broker that leads no replicated partition
// sleeps.
//
// The time of the next look at all of them stands once it is set. Were it put off by each look at
// some, one follower that may not join, as it leaves, and fetches all the same, would keep the
// silent ones of every other partition in sync.
func (s *Set) review(ctx context.Context) {
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	defer tick.Stop()
	for ticks := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.reviews.wake:
		case <-tick.C:
			ticks = false
			s.reviews.wantAll()
		}
		if again := s.reviewDue(ctx); again > 0 && !ticks {
			ticks = true
			tick.Reset(again)
		}
	}
}

// reviewDue looks at what is due, and tells when to look at everything again; 0: not before there
// is news.
func (s *Set) reviewDue(ctx context.Context) (again time.Duration) {
	due, all := s.reviews.take()
	view := s.view.Load()
	if all {
		due = map[PartitionID]bool{}
		for id := range view.partitions {
			due[id] = true
		}
	}
	var urgent, joins changeBatch
	for id := range due {
		p := view.partitions[id]
		if p == nil {
			continue
		}
		r := p.role.Load()
		if r.reign == nil || len(r.replicas) < 2 {
			continue
		}
		again = min(time.Duration(s.lagMax.Load())/4, retryHold)
		now := time.Now()
		if r.reign.advance(now) { // a follower that would have joined may have lost its turn
			s.advanced(p, r)
		}
		if s.changeISR == nil {
			continue
		}
		from, to, ok := r.reign.propose(now)
		if !ok {
			continue
		}
		change := metadata.ISRChange{Topic: p.topic, Partition: id.Index, LeaderEpoch: r.epoch,
			From: from, To: to}
		if len(to) > len(from) {
			joins.add(change, proposed{p, r})
		} else {
			urgent.add(change, proposed{p, r})
		}
	}
	if len(urgent.changes) > 0 {
		s.ask(ctx, urgent)
	}
	if len(joins.changes) > 0 {
		s.offerJoins(joins)
	}
	return again
}

// offerJoins has replicas taken in, if none are being taken in; else it takes the proposals back,
// to be made anew after that.
func (s *Set) offerJoins(joins changeBatch) {
	if s.reviews.beginJoins() {
		s.reviews.joins <- joins
		return
	}
	for _, of := range joins.of {
		of.role.reign.withdraw()
	}
}

// processEnded is told that a broker which had answered a moment ago refuses connections now: its
// process has ended, and producers of every partition that it follows wait. The metadata will say
// so, too, but where a kubelet has to see it first that takes a second.
func (s *Set) processEnded(of metadata.InSync) {
	for id, p := range s.view.Load().partitions {
		if r := p.role.Load(); r.reign != nil && r.reign.processEnded(of) {
			s.reviews.want(id)
		}
	}
	// should it ask again, it lives, and all its partitions are to hear of it
	s.sessions.table.each(func(in *session) {
		if in.follower != nil && in.follower.Broker == of.Broker {
			in.again.Store(true)
		}
	})
}

// proposed is whose in-sync replicas are to be changed, and in which of its roles.
type proposed struct {
	partition *partition
	role      *role
}

// changed takes in the outcome of a change.
func (s *Set) changed(of proposed, change metadata.ISRChange, err error) {
	p, r := of.partition, of.role
	result := outcomeUnknown
	switch {
	case err == nil:
		result = outcomeDone
	case errors.Is(err, metadata.ErrISRConflict):
		result = outcomeConflict
	}
	now := time.Now()
	before, after, moved := r.reign.settled(result, now)
	if result == outcomeConflict {
		s.reviews.want(p.id)
	}
	s.logOutcome(p.id, change, result, err, now)
	if !slices.Equal(before, after) {
		s.logger.Info("in-sync replicas changed", "partition", p.id, "from", before, "to", after,
			"leaderEpoch", r.epoch)
		s.metrics.isrChanged(before, after)
	}
	if moved || len(after) < len(before) {
		s.advanced(p, r) // who waits may be done, or will never be
	}
}

// logOutcome says why in-sync replicas did not change. A conflict is everyday life, as the operator
// did it first. That there are no answers is said once for all partitions, and once more when there
// are again.
func (s *Set) logOutcome(id PartitionID, change metadata.ISRChange, result outcome, err error,
	now time.Time) {
	s.reviews.mu.Lock()
	begins, ends, failed := false, false, 0
	if result == outcomeUnknown {
		begins = s.reviews.mu.outage.Fail(now)
	} else {
		failed, ends = s.reviews.mu.outage.Succeed()
	}
	s.reviews.mu.Unlock()
	switch {
	case begins:
		s.logger.Warn("in-sync replicas cannot be changed, of this partition and perhaps others",
			"partition", id, "from", change.From,
			"to", idsOf(change.To), "error", err)
	case ends:
		s.logger.Info("in-sync replicas can be changed again", "failed", failed)
	}
	if result == outcomeConflict {
		s.logger.Debug("in-sync replicas not changed", "partition", id, "from", change.From, "to",
			idsOf(change.To), "error", err)
	}
}
