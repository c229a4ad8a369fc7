package sim

import (
	"context"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/reachability"
)

// reach contains a broker's information about the reachability of its peers.
type reach struct {
	sync.Mutex
	observer reachability.Observer
	report   reachability.Report
}

// pingAlways pings the other brokers until the process ends, like internal/broker.
func (l *liveBroker) pingAlways() {
	for sleep(l.ctx, reachability.PingInterval) == nil {
		image := l.image.Load()
		if image == nil {
			continue
		}
		var peers []reachability.Peer
		for i := range image.Brokers {
			if b := &image.Brokers[i]; b.ID != l.id {
				peers = append(peers, reachability.Peer{Broker: b.ID, Epoch: b.Epoch})
			}
		}
		l.reach.Lock()
		l.reach.report = l.reach.observer.Tick(peers, time.Now())
		l.reach.Unlock()
		for _, p := range peers {
			l.w.spawn(func() { l.ping(p) })
		}
	}
}

// ping sends a ping and records the response.
func (l *liveBroker) ping(p reachability.Peer) {
	ctx, cancel := context.WithTimeout(l.ctx, reachability.UnreachableAfter)
	defer cancel()
	if l.w.net.send(ctx, l.id, p.Broker) != nil {
		return
	}
	if to := l.w.brokers[p.Broker].live.Load(); to == nil || to.epoch.Load() != p.Epoch {
		return
	}
	if l.w.net.send(ctx, p.Broker, l.id) == nil {
		l.reach.Lock()
		l.reach.observer.Answered(p, time.Now())
		l.reach.Unlock()
	}
}

// latest returns the latest report.
func (r *reach) latest() reachability.Report {
	r.Lock()
	defer r.Unlock()
	return r.report
}

// isolateAlways marks isolated brokers until the operator process ends.
func (o *operator) isolateAlways() {
	var decision reachability.Isolation
	for sleep(o.ctx, 200*time.Millisecond) == nil {
		ctx, cancel := context.WithTimeout(o.ctx, 5*time.Second)
		_ = o.api.call(ctx, func() error { o.w.meta.isolate(&decision); return nil })
		cancel()
	}
}

// isolate decides which brokers are isolated, and stores the decision.
func (c *controlPlane) isolate(decision *reachability.Isolation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var brokers []reachability.Broker
	for id, r := range c.mu.brokers {
		if r.liveness(now) != placement.Up || r.Leaving {
			continue
		}
		b := reachability.Broker{Peer: reachability.Peer{Broker: id, Epoch: r.Epoch},
			Isolated: r.isolated}
		if now.Sub(r.seen) < 4*time.Second {
			b.Report = r.unreachable
		}
		brokers = append(brokers, b)
	}
	marked := map[reachability.Peer]bool{}
	for _, p := range decision.Decide(brokers, now) {
		marked[p] = true
	}
	for _, b := range brokers {
		if r := c.mu.brokers[b.Broker]; r.isolated != marked[b.Peer] {
			r.isolated = marked[b.Peer]
			c.w.tracef("broker %d is isolated: %t", b.Broker, r.isolated)
			c.w.store.notify()
		}
	}
}

// disconnectOneWay drops the messages from one broker to another for a while.
func (w *world) disconnectOneWay(from, to int32) {
	if from == to {
		return
	}
	d := w.randomDuration(100*time.Millisecond, 14*time.Second)
	w.tracef("messages from node %d to %d are lost for %s", from, to, d)
	w.net.cutOneWay(from, to, 1)
	w.schedule(d, func() { w.net.cutOneWay(from, to, -1) })
}

// TestIsolatedLeaderIsReplaced cuts a leader off from the other brokers, but not from the API
// server, in both directions or in one. Other brokers must lead its partitions before the isolated
// leader would have removed them from the ISRs.
func TestIsolatedLeaderIsReplaced(t *testing.T) {
	for name, cut := range map[string]func(w *world, leader, other int32){
		"both directions": func(w *world, leader, other int32) { w.net.disconnect(leader, other, 1) },
		"from the leader": func(w *world, leader, other int32) { w.net.cutOneWay(leader, other, 1) },
		"to the leader":   func(w *world, leader, other int32) { w.net.cutOneWay(other, leader, 1) },
	} {
		for seed := uint64(1); seed <= 3; seed++ {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { isolateLeader(t, seed, cut) })
			})
		}
	}
}

func isolateLeader(t *testing.T, seed uint64, cut func(w *world, leader, other int32)) {
	var out io.Writer
	if testing.Verbose() && os.Getenv("SIM_LOG") != "" {
		out = os.Stdout
	}
	w := newWorld(t, seed, out)
	w.profile.replicas, w.profile.minISR, w.profile.lagMax = 3, 2, 10*time.Second
	w.profile.allowLoss = false
	for _, topic := range w.meta.topics {
		topic.settings.MinInSyncReplicas = 2
	}
	defer w.shutDown()
	w.assignAll()
	w.mu.healed = true // the API server loses no writes
	for _, b := range w.members() {
		b.start()
	}
	w.runFor(2 * time.Second)
	w.startOperator()
	w.startClients()
	w.runFor(6 * time.Second)
	name := w.meta.topics[0].name
	leader := w.meta.recorded(name).Leader
	if leader < 0 {
		t.Fatalf("%s has no leader", name)
	}
	for _, b := range w.members() {
		if b.id != leader {
			cut(w, leader, b.id)
		}
	}
	w.runFor(6 * time.Second)
	for _, topic := range w.meta.topics {
		p := w.meta.recorded(topic.name)
		for _, m := range p.ISR {
			if m.Broker == leader {
				t.Errorf("%s: isolated broker %d is in the ISR %v 6 s after the cut", topic.name, leader,
					p.ISR)
			}
		}
		if p.Leader == leader || p.Leader < 0 {
			t.Errorf("%s: broker %d leads 6 s after the cut of broker %d", topic.name, p.Leader, leader)
		}
	}
	w.heal()
	if w.mu.violation != "" {
		for _, line := range w.mu.trace {
			t.Log(line)
		}
		t.Fatalf("seed %d: %s", seed, w.mu.violation)
	}
}

// assignAll assigns each topic to profile.replicas brokers.
func (w *world) assignAll() {
	for _, topic := range w.meta.topics {
		var all []int32
		for id := range int32(w.profile.replicas) {
			all = append(all, id)
		}
		w.store.change(topic.set, true, func(s *partitionset.Set) {
			s.Assign(topic.key(), partitionset.Assignment{Replicas: all,
				Tag: partitionset.Tag(topic.id)})
		})
	}
}
