package sim

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// firstOperator is the node id of the first operator process. Later processes have lower ids.
const firstOperator int32 = -10

// operator is an operator process. It decides for all partitions of a set with one write. Two
// operators can run at the same time, because an old one may not know yet that it has lost its
// Lease.
type operator struct {
	w       *world
	api     *apiClient
	writer  *commit.Writer
	ctx     context.Context
	cancel  context.CancelFunc
	brokers atomic.Pointer[registrations]
	// changed wakes the goroutine of each set. Each channel has a buffer of one.
	changed   map[string]chan struct{}
	decisions atomic.Int64 // counter for unique incarnation ids
}

// startOperator starts another operator process.
func (w *world) startOperator() *operator {
	o := &operator{w: w, changed: map[string]chan struct{}{}}
	o.ctx, o.cancel = context.WithCancel(w.ctx)
	w.operators.started++
	node := firstOperator + 1 - int32(w.operators.started)
	w.tracef("operator %d starts", node)
	o.api = newAPIClient(w, node, func() bool { return o.ctx.Err() != nil })
	o.writer = o.api.writer()
	w.operators.running = append(w.operators.running, o)
	w.spawn(o.watch)
	w.spawn(o.isolateAlways)
	for _, set := range w.store.names() {
		o.changed[set] = make(chan struct{}, 1)
		w.spawn(func() { o.decideAlways(set) })
	}
	return o
}

// stopOperator ends an operator process. Requests that it has sent can still arrive.
func (w *world) stopOperator(o *operator) {
	w.tracef("operator %d stops", o.api.node)
	o.cancel()
	w.operators.running = slices.DeleteFunc(w.operators.running,
		func(other *operator) bool { return other == o })
}

// watch keeps the caches up to date until the process ends.
func (o *operator) watch() {
	for o.ctx.Err() == nil {
		brokers, err := o.api.next(o.ctx, o.w.profile.decideEvery)
		if err != nil {
			continue
		}
		o.brokers.Store(&brokers)
		for _, changed := range o.changed {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
}

// decideAlways makes the decisions for a set after each change, until the process ends.
func (o *operator) decideAlways(set string) {
	var leftSince time.Time // zero: no change was left to the leaders
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.changed[set]:
		}
		ctx, cancel := context.WithTimeout(o.ctx, 20*time.Second)
		leave := leftSince.IsZero() || time.Since(leftSince) < o.w.profile.takeover
		switch left := o.decide(ctx, set, leave); {
		case !left:
			leftSince = time.Time{}
		case leftSince.IsZero():
			leftSince = time.Now()
		}
		cancel()
	}
}

// decide makes one pass over the partitions of a set. If leaveISR is set, it leaves ISR changes to
// the serving leaders, and reports in left whether there are any.
func (o *operator) decide(ctx context.Context, set string, leaveISR bool) (left bool) {
	latest, _ := partitionset.Decode(o.api.Latest(set), nil)
	latest = latest.Clone()
	all := latest.Clone()
	all.Decide(o.input(false))
	o.change(latest, leaveISR)
	left = !sameStates(latest, all)
	if latest.StatusChanged() { // when nothing changes, the operator sends no requests
		o.writer.ChangeStatuses(ctx, set, true, []commit.Change{func(s *partitionset.Set) error {
			o.change(s, leaveISR)
			return nil
		}}) // after an error, the next pass decides again
	}
	return left
}

// change makes the decisions for the partitions of a set.
func (o *operator) change(s *partitionset.Set, leaveISR bool) {
	for _, d := range s.Decide(o.input(leaveISR)) {
		if d.Unclean && d.After.State != nil {
			o.w.store.decidedUnclean(d.Key, *d.After.State)
		}
	}
}

// sameStates reports whether the states of all partitions are equal.
func sameStates(a, b *partitionset.Set) bool {
	for key, entry := range a.All() {
		other, _ := b.Get(key)
		if entry.State != nil && other.State != nil &&
			fmt.Sprint(placedOf(entry)) != fmt.Sprint(placedOf(other)) {
			return false
		}
	}
	return true
}

// input returns the input for the operator's decisions, except for the set itself.
func (o *operator) input(leaveISR bool) partitionset.Input {
	preferred := o.w.meta.preferred.Load()
	in := partitionset.Input{LeaveISR: leaveISR,
		Preferred:   func(partitionset.Key) bool { return preferred },
		Topics:      map[string]partitionset.Topic{},
		Incarnation: fmt.Sprintf("o%d-%d", -o.api.node, o.decisions.Add(1))}
	if brokers := o.brokers.Load(); brokers != nil {
		in.Brokers = *brokers
	}
	for _, t := range o.w.meta.topics {
		topic := partitionset.Topic{Tag: partitionset.Tag(t.id), Partitions: 1,
			AllowUnclean: t.settings.UncleanElection || o.w.meta.acceptLoss.Load()}
		if o.w.meta.acceptLoss.Load() {
			topic.AcceptedDataLoss = o.consent(t, in.Brokers)
		}
		in.Topics[t.name] = topic
	}
	return in
}

// consent accepts any data loss for a partition without a leader.
func (o *operator) consent(t *topic, brokers registrations) map[int32]string {
	p := o.w.meta.recorded(t.name)
	if p.Leader != placement.NoLeader || p.LeaderEpoch == 0 {
		return nil
	}
	for id, b := range brokers {
		if slices.Contains(p.Replicas, id) && b.Liveness == placement.Up {
			return map[int32]string{0: placement.DataLossConsent(b.Directory, p.LeaderEpoch)}
		}
	}
	return nil
}

// replaceOperator starts another operator process, and ends the other processes after a while.
func (w *world) replaceOperator() {
	if w.parent != nil {
		w.parent.fault()
		return
	}
	w.startOperator()
	w.stopOperatorsBut(1, w.randomDuration(0, 10*time.Second))
}

// stopOperatorsBut ends all operator processes except the last ones, after the given time.
func (w *world) stopOperatorsBut(last int, after time.Duration) {
	old := slices.Clone(w.operators.running[:max(0, len(w.operators.running)-last)])
	w.schedule(after, func() {
		for _, o := range old {
			w.stopOperator(o)
		}
	})
}
