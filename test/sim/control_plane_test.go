package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/topicconfig"
)

const (
	// the age of a Lease from which the broker's state is uncertain
	leaseUncertain = 5 * time.Second
	leaseExpiry    = 6 * time.Second
)

// controlPlane is the API server and the operator: the registered brokers and the partitions, each
// with a version for compare-and-swap.
type controlPlane struct {
	w  *world
	mu struct {
		sync.Mutex
		topics       []*topic
		brokers      map[int32]*registration
		operatorDown bool   // the operator is down
		preferred    bool   // the next decision moves leaders to their preferred replicas
		acceptLoss   bool   // an administrator accepts any data loss
		lastBrokers  string // the state of the brokers at the last decision, for comparison
		changed      chan struct{}
	}
}

// topic is a topic with one partition.
type topic struct {
	name      string
	id        metadata.ID
	settings  topicconfig.Settings
	partition placement.Partition
	version   int
	// deferredSince is the time since which the operator leaves an ISR change to the leader; zero:
	// it leaves none to the leader.
	deferredSince time.Time
}

// takeoverDelay is how long the operator leaves an ISR change to the leader. The real operator has
// the same maximum.
const takeoverDelay = 30 * time.Second

// newIncarnation returns a replica incarnation id that no earlier decision about the topic has
// used, unless that decision changed nothing.
func (t *topic) newIncarnation() string { return fmt.Sprintf("%s@%d", t.name, t.version) }

// registration is a registered broker and its Lease.
type registration struct {
	metadata.Broker
	seen   time.Time
	exited bool // the exit of the process was detected
}

func newControlPlane(w *world) *controlPlane {
	c := &controlPlane{w: w}
	c.mu.brokers = map[int32]*registration{}
	c.mu.changed = make(chan struct{})
	return c
}

// liveness returns the state of a broker as the operator knows it.
func (r *registration) liveness(now time.Time) placement.Liveness {
	switch age := now.Sub(r.seen); {
	case r.exited || age > leaseExpiry:
		return placement.Down
	case age > leaseUncertain:
		return placement.Unknown
	}
	return placement.Up
}

func (c *controlPlane) brokerStatesLocked() map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	for id, r := range c.mu.brokers {
		all[id] = placement.BrokerState{
			Liveness: r.liveness(time.Now()), Epoch: r.Epoch, CleanEpoch: r.CleanEpoch,
			Directory: r.Directory, Leaving: r.Leaving,
		}
	}
	return all
}

// changedLocked wakes the brokers that wait for an image.
func (c *controlPlane) changedLocked() {
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// decide lets the operator decide about every partition, unless it is down.
func (c *controlPlane) decide() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.operatorDown {
		return
	}
	brokers := c.brokerStatesLocked()
	summary := ""
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		summary += fmt.Sprint(id, brokers[id].Liveness, " ")
	}
	if summary != c.mu.lastBrokers {
		c.mu.lastBrokers = summary
		c.changedLocked()
	}
	for _, t := range c.mu.topics {
		options := placement.Options{
			PreferLeader:       c.mu.preferred,
			AllowUnclean:       t.settings.UncleanElection || c.mu.acceptLoss,
			ReplicaIncarnation: t.newIncarnation(),
		}
		if c.mu.acceptLoss && t.partition.Leader == placement.NoLeader &&
			t.partition.LeaderEpoch > 0 {
			for _, r := range c.mu.brokers {
				if slices.Contains(t.partition.Replicas, r.ID) &&
					r.liveness(time.Now()) == placement.Up {
					options.AcceptedDataLoss = placement.DataLossConsent(r.Directory,
						t.partition.LeaderEpoch)
				}
			}
		}
		decision := placement.Decide(t.partition, brokers, options)
		if !t.leavesToLeader(decision.Partition, time.Now()) {
			c.putLocked(t, decision.Partition, decision.Unclean)
		}
	}
	c.mu.preferred = false
}

// leavesToLeader reports whether the operator leaves a change to the leader for now. It does so
// with a change that only affects the ISR, for at most takeoverDelay.
func (t *topic) leavesToLeader(next placement.Partition, now time.Time) bool {
	unchangedISR := next
	unchangedISR.ISR = t.partition.ISR
	current := fmt.Sprint(t.partition)
	if fmt.Sprint(unchangedISR) != current || fmt.Sprint(next) == current {
		t.deferredSince = time.Time{}
		return false
	}
	if t.deferredSince.IsZero() {
		t.deferredSince = now
	}
	if now.Sub(t.deferredSince) < takeoverDelay {
		return true
	}
	t.deferredSince = time.Time{}
	return false
}

// putLocked writes a partition if it has changed.
func (c *controlPlane) putLocked(t *topic, next placement.Partition, unclean bool) {
	before := t.partition
	if fmt.Sprint(before) == fmt.Sprint(next) {
		return
	}
	if next.LeaderEpoch != before.LeaderEpoch {
		c.w.tracef(
			"%s: broker %d leads in epoch %d, ISR %v, replicas %v -> %v, unclean %t (before: %d, ISR %v)",
			t.name,
			next.Leader,
			next.LeaderEpoch,
			next.ISR,
			next.Replicas,
			next.Target,
			unclean,
			before.Leader,
			before.ISR,
		)
	} else {
		c.w.tracef("%s: ISR %v, replicas %v -> %v", t.name, next.ISR, next.Replicas, next.Target)
	}
	c.w.elected(t, before, next, unclean)
	t.partition = next
	t.version++
	c.changedLocked()
}

// image returns the current metadata image, and a channel that is closed when it changes.
func (c *controlPlane) image() (image *metadata.Image, changed chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var brokers []metadata.Broker
	up := map[int32]metadata.Broker{}
	for _, r := range c.mu.brokers {
		if r.liveness(time.Now()) != placement.Down {
			brokers = append(brokers, r.Broker)
			up[r.ID] = r.Broker
		}
	}
	var topics []*metadata.Topic
	for _, t := range c.mu.topics {
		p := t.partition
		imaged := &metadata.Partition{
			Replicas: slices.Clone(p.Replicas), Leader: placement.NoLeader,
			LeaderEpoch: p.LeaderEpoch, Target: slices.Clone(p.Target),
			UnprovenEpoch: p.UnprovenEpoch,
		}
		for _, id := range p.Replicas {
			imaged.ReplicaIncarnations = append(imaged.ReplicaIncarnations, p.ReplicaIncarnations[id])
		}
		imaged.SetISR(p.Leader, p.ISR, up)
		for _, m := range p.ISR {
			// As in both metadata stores, a broker that has restarted is not the elected leader.
			if r := c.mu.brokers[m.Broker]; m.Broker == p.Leader && r.Epoch == m.Epoch &&
				r.liveness(time.Now()) != placement.Down {
				imaged.Leader = p.Leader
			}
		}
		topics = append(topics,
			&metadata.Topic{Name: t.name, ID: t.id, Settings: t.settings,
				Partitions: []*metadata.Partition{imaged}})
	}
	return metadata.NewImage("simulated", metadata.CleanerBudget{Workers: 1}, brokers, topics),
		c.mu.changed
}

// register registers a broker with a new broker epoch.
func (c *controlPlane) register(self metadata.Broker) (epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	self.Epoch = 1
	if old := c.mu.brokers[self.ID]; old != nil {
		self.Epoch = old.Epoch + 1
	}
	c.mu.brokers[self.ID] = &registration{Broker: self, seen: time.Now()}
	c.changedLocked()
	return self.Epoch
}

// renewLease renews a Lease, unless a later broker epoch has registered.
func (c *controlPlane) renewLease(id int32, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.brokers[id]; r != nil && r.Epoch == epoch && !r.exited {
		before := r.liveness(time.Now())
		r.seen = time.Now()
		if before == placement.Down {
			c.changedLocked()
		}
	}
}

// processExited processes the detected exit of a broker process, by the end of its container or the
// release of its Lease.
func (c *controlPlane) processExited(id int32, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.exited = true
		c.changedLocked()
	}
}

func (c *controlPlane) leave(id int32, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.Leaving = true
		c.changedLocked()
	}
}

// serving processes the report of a leader whose log contains a later leader epoch. The next
// election uses a leader epoch that is higher than the one in the log.
func (c *controlPlane) serving(id int32, served []metadata.Served) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range served {
		t := c.topicLocked(one.Topic)
		if !one.Ahead || t == nil || t.partition.Leader != id {
			continue
		}
		asked := t.partition
		asked.FoundEpoch = &one.LeaderEpoch
		decision := placement.Decide(asked, c.brokerStatesLocked(),
			placement.Options{ReplicaIncarnation: t.newIncarnation()})
		decision.FoundEpoch = nil
		c.putLocked(t, decision.Partition, decision.Unclean)
	}
}

func (c *controlPlane) topicLocked(id metadata.ID) *topic {
	for _, t := range c.mu.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

var errNoAnswer = errors.New("no answer from the API server")

// changeISR changes the ISR on behalf of a broker, by compare-and-swap on the version. If late > 0,
// the write arrives after that time, when the broker has abandoned the request.
func (c *controlPlane) changeISR(ctx context.Context, change metadata.ISRChange,
	late time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topicLocked(change.Topic)
	if t == nil {
		return metadata.ErrISRConflict
	}
	changed, err := placement.ChangeISR(t.partition, change.Proposal(), c.brokerStatesLocked())
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrISRConflict, err)
	}
	if late == 0 {
		c.putLocked(t, changed, false)
		return nil
	}
	version := t.version
	c.w.spawn(func() {
		if sleep(c.w.ctx, late) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.version == version {
			c.w.tracef("%s: late write arrived", t.name)
			c.putLocked(t, changed, false)
		}
	})
	return errNoAnswer
}

// recorded returns the current state of a partition.
func (c *controlPlane) recorded(name string) placement.Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.mu.topics {
		if t.name == name {
			return t.partition
		}
	}
	return placement.Partition{}
}
