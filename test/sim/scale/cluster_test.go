package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// node is the operator or a broker, with its cache of the sets.
type node struct {
	id     int32                         // -1: the operator
	keys   map[string][]partitionset.Key // a broker's partitions, by set; nil for the operator
	writer *commit.Writer
	mu     sync.Mutex
	seen   map[string]version
}

// cluster contains the brokers, the operator and the API server.
type cluster struct {
	ctx      context.Context
	tasks    sync.WaitGroup
	server   *server
	operator *node
	brokers  []*node
	names    []string // names of the sets
	mu       sync.Mutex
	states   map[int32]placement.BrokerState
	changed  time.Time // time of the last change of a broker's state
	random   *rand.Rand
}

// size is the size of a simulated cluster.
type size struct{ brokers, partitions, sets, cores int }

const (
	replicas = 3
	// detection is the maximum time until a leader has detected a follower's failure. It is short
	// because the follower refuses connections.
	detection = 300 * time.Millisecond
	// catchUp is the maximum time until a returned follower has caught up.
	catchUp = 2 * time.Second
	// leaveISR is the time for which the operator leaves ISR changes to the leaders.
	leaveISR = 5 * time.Second
	// retryInterval is the time after which a broker repeats a failed report.
	retryInterval = 3 * time.Second
)

func newCluster(ctx context.Context, size size) *cluster {
	c := &cluster{ctx: ctx, random: rand.New(rand.NewPCG(1, 1)), changed: time.Now(),
		states: map[int32]placement.BrokerState{},
		server: &server{watchers: size.brokers + 1,
			cpu:  processor{free: make([]time.Time, size.cores)},
			sets: map[string]version{}, news: map[*node]chan string{}}}
	for id := range size.brokers {
		c.states[int32(id)] = placement.BrokerState{Liveness: placement.Up, Epoch: 1,
			CleanEpoch: -1, Directory: fmt.Sprintf("disk-of-broker-%06d", id)}
	}
	c.addSets(size)
	c.operator = c.addNode(-1)
	for id := range size.brokers {
		c.brokers = append(c.brokers, c.addNode(int32(id)))
	}
	return c
}

// addSets creates the sets. Their topics have ten partitions each.
func (c *cluster) addSets(size size) {
	sets := make([]*v1alpha1.PartitionSet, size.sets)
	for i := range sets {
		sets[i] = &v1alpha1.PartitionSet{Spec: v1alpha1.PartitionSetSpec{
			Assignments: map[string]string{}}}
		sets[i].Name = v1alpha1.PartitionSetName("demo", int32(i))
		c.names = append(c.names, sets[i].Name)
	}
	for i := range size.partitions {
		key := partitionset.Key{Topic: fmt.Sprintf("topic-%d", i/10), Index: int32(i % 10)}
		ids := c.random.Perm(size.brokers)[:replicas]
		sets[partitionset.Number(key, int32(size.sets))].Spec.Assignments[key.String()] =
			fmt.Sprintf("%d,%d,%d abcdefgh", ids[0], ids[1], ids[2])
	}
	for _, set := range sets {
		c.server.put(set)
	}
}

func (c *cluster) addNode(id int32) *node {
	n := &node{id: id, seen: map[string]version{}, keys: map[string][]partitionset.Key{}}
	options := commit.Options{TrustWatch: id < 0}
	if id >= 0 {
		options.Writers = func() int { return c.server.watchers }
	}
	n.writer = commit.New(api{c.server, n}, options)
	c.server.news[n] = make(chan string, 1<<16)
	for _, name := range c.names {
		n.seen[name] = c.server.current(name)
		for key, entry := range n.seen[name].decoded.All() {
			if slices.Contains(entry.Assignment.Replicas, id) {
				n.keys[name] = append(n.keys[name], key)
			}
		}
	}
	return n
}

// brokerStates returns the states of all brokers, and the time at which any of them changed last.
func (c *cluster) brokerStates() (map[int32]placement.BrokerState, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states, c.changed
}

// setState changes a broker's state.
func (c *cluster) setState(id int32, state placement.BrokerState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[int32]placement.BrokerState{}
	for other, s := range c.states {
		next[other] = s
	}
	next[id] = state
	c.states, c.changed = next, time.Now()
}

// run starts all nodes.
func (c *cluster) run() {
	stale := map[string]chan struct{}{}
	for _, name := range c.names {
		changed := make(chan struct{}, 1)
		stale[name] = changed
		c.tasks.Go(func() { c.decideAlways(name, changed) })
	}
	c.tasks.Go(func() {
		c.server.watch(c.ctx, c.operator, func(set string) {
			select {
			case stale[set] <- struct{}{}:
			default:
			}
		})
	})
	for _, b := range c.brokers {
		unreported := make(chan struct{}, 1)
		c.tasks.Go(func() {
			c.server.watch(c.ctx, b, func(string) {
				select {
				case unreported <- struct{}{}:
				default:
				}
			})
		})
		c.tasks.Go(func() { c.reportServing(b, unreported) })
		c.tasks.Go(func() { c.changeISRs(b) })
	}
}

// decideAlways makes the decisions for a set after each change of the set or of a broker, at most
// once in 20 ms.
func (c *cluster) decideAlways(set string, stale chan struct{}) {
	var decidedFor time.Time
	for {
		_, changed := c.brokerStates()
		left := !decidedFor.IsZero() && time.Since(changed) >= leaveISR &&
			decidedFor.Before(changed.Add(leaveISR))
		select {
		case <-stale:
		default:
			if !left && decidedFor.After(changed) {
				if wait(c.ctx, 20*time.Millisecond) != nil {
					return
				}
				continue
			}
		}
		decidedFor = time.Now()
		c.decide(set)
		if wait(c.ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// decide makes the operator's decisions for a set, if any change is needed.
func (c *cluster) decide(set string) {
	change := func(s *partitionset.Set) error {
		brokers, changed := c.brokerStates()
		in := partitionset.Input{Brokers: brokers, Incarnation: "k3f9x2ab",
			Topics: map[string]partitionset.Topic{}, LeaveISR: time.Since(changed) < leaveISR}
		for key := range s.All() {
			in.Topics[key.Topic] = partitionset.Topic{Tag: "abcdefgh", Partitions: 10}
		}
		s.Decide(in)
		return nil
	}
	c.operator.mu.Lock()
	latest := c.operator.seen[set].decoded.Clone()
	c.operator.mu.Unlock()
	if _ = change(latest); latest.StatusChanged() {
		_ = c.operator.writer.ChangeStatus(c.ctx, set, change) // the next pass decides again
	}
}

// reportServing reports the partitions that a broker serves whenever the broker's sets have
// changed, one report at a time. It retries every retryInterval, like a broker.
func (c *cluster) reportServing(b *node, unreported <-chan struct{}) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-unreported:
		case <-retry.C:
		}
		var writes sync.WaitGroup
		for _, set := range c.names {
			if changes := c.reports(b, set); len(changes) > 0 {
				retry.Reset(retryInterval)
				writes.Go(func() { b.writer.ChangeStatuses(c.ctx, set, false, changes) })
			}
		}
		writes.Wait()
	}
}

// reports returns the reports on the partitions of a set that a broker leads and that are not
// recorded as served.
func (c *cluster) reports(b *node, set string) (changes []commit.Change) {
	b.mu.Lock()
	decoded := b.seen[set].decoded
	b.mu.Unlock()
	brokers, _ := c.brokerStates()
	if brokers[b.id].Liveness != placement.Up {
		return nil
	}
	self := placement.InSyncReplica{Broker: b.id, Epoch: brokers[b.id].Epoch}
	for _, key := range b.keys[set] {
		entry, _ := decoded.Get(key)
		if state := entry.State; state != nil && !state.Serving &&
			state.Leads(self, state.LeaderEpoch) {
			changes = append(changes, func(s *partitionset.Set) error {
				s.Serve(key, self, state.LeaderEpoch)
				return nil
			})
		}
	}
	return changes
}

// changeISRs changes the ISRs of the partitions that a broker leads. It removes followers that are
// down, and adds followers that have returned.
func (c *cluster) changeISRs(b *node) {
	for wait(c.ctx, 50*time.Millisecond) == nil {
		brokers, changed := c.brokerStates()
		if brokers[b.id].Liveness != placement.Up {
			continue
		}
		for _, set := range c.names {
			b.mu.Lock()
			decoded := b.seen[set].decoded
			b.mu.Unlock()
			var changes []commit.Change
			for _, key := range b.keys[set] {
				entry, _ := decoded.Get(key)
				if isr := b.proposal(entry.State, brokers, time.Since(changed)); isr != nil {
					changes = append(changes, func(s *partitionset.Set) error {
						_, err := s.ChangeISR(key, *isr, brokers)
						return err
					})
				}
			}
			if len(changes) == 0 {
				continue
			}
			for _, err := range b.writer.ChangeStatuses(c.ctx, set, true, changes) {
				if err != nil && !errors.Is(err, metadata.ErrISRConflict) {
					break // the next round makes this proposal again
				}
			}
		}
	}
}

// proposal returns the ISR change that a leader proposes, or nil. since is the time since the last
// change of a broker's state.
func (b *node) proposal(state *partitionset.State, brokers map[int32]placement.BrokerState,
	since time.Duration) *metadata.ISRChange {
	if state == nil || state.Leader != b.id || !state.Serving {
		return nil
	}
	change := metadata.ISRChange{LeaderEpoch: state.LeaderEpoch}
	differs := false
	for _, id := range state.Replicas {
		index := slices.IndexFunc(state.ISR,
			func(m placement.InSyncReplica) bool { return m.Broker == id })
		member := index >= 0
		current := member && state.ISR[index].Epoch == brokers[id].Epoch
		if member {
			change.From = append(change.From, id)
		}
		// Each leader detects a failure at a different time, and each follower catches up at a different
		// time.
		percent := (b.id*37 + id*11 + state.LeaderEpoch*7) % 100
		up := brokers[id].Liveness == placement.Up
		stays := member && (up && current || !up && since < share(detection, percent))
		joins := up && !current && since >= share(catchUp, percent)
		differs = differs || member != (stays || joins) || joins
		if stays || joins {
			change.To = append(change.To, metadata.InSync{Broker: id, Epoch: brokers[id].Epoch,
				ReplicaIncarnation: state.ReplicaIncarnations[id]})
		}
	}
	if !differs {
		return nil
	}
	return &change
}

// share returns the given percentage of a duration.
func share(elapsed time.Duration, percent int32) time.Duration {
	return elapsed / 100 * time.Duration(percent)
}

// count returns the number of partitions without a serving leader, and the number of partitions
// whose ISR differs from the live brokers.
func (c *cluster) count() (offline, outOfSync int) {
	brokers, _ := c.brokerStates()
	for _, name := range c.names {
		for _, entry := range c.server.current(name).decoded.All() {
			if !entry.Serves() || brokers[entry.State.Leader].Liveness != placement.Up {
				offline++
			}
			want := 0
			for _, id := range entry.Assignment.Replicas {
				if brokers[id].Liveness == placement.Up {
					want++
				}
			}
			have := 0
			if entry.State != nil {
				for _, m := range entry.State.ISR {
					if brokers[m.Broker].Liveness == placement.Up &&
						brokers[m.Broker].Epoch == m.Epoch {
						have++
					}
				}
				if have < len(entry.State.ISR) {
					have = -1 // a failed ISR member delays acks=all
				}
			}
			if have != want {
				outOfSync++
			}
		}
	}
	return offline, outOfSync
}
