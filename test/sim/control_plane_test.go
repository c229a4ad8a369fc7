package sim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/reachability"
	"heartwood.dev/heartwood/internal/topicconfig"
)

const (
	// leaseUncertain is the age of a Lease above which the broker's state is uncertain.
	leaseUncertain = 5 * time.Second
	leaseExpiry    = 6 * time.Second
)

// controlPlane contains the topics and the registered brokers. The partitions are in objectStore;
// operators (operator_test.go) make the decisions for them.
type controlPlane struct {
	w          *world
	topics     []*topic
	preferred  atomic.Bool // true if decisions move leadership to preferred replicas
	acceptLoss atomic.Bool // true if an administrator accepts any data loss
	mu         struct {
		sync.Mutex
		brokers     map[int32]*registration
		lastBrokers string // state of the brokers at the last call of noticeExpiry
	}
}

// topic is a topic with one partition.
type topic struct {
	name     string
	id       metadata.ID
	settings topicconfig.Settings
	set      string // name of the PartitionSet
}

func (t *topic) key() partitionset.Key { return partitionset.Key{Topic: t.name} }

// registration is a registered broker with its Lease.
type registration struct {
	metadata.Broker
	seen   time.Time
	exited bool // true if the exit of the process was detected
	// unreachable is the report in the Lease. isolated is an operator's mark.
	unreachable reachability.Report
	isolated    bool
}

// registrations contains the registered brokers and their states, as known to the API server when
// it sent a response. A disconnected node keeps them, so no Lease expires for this node (ADR 0031).
type registrations map[int32]placement.BrokerState

func newControlPlane(w *world) *controlPlane {
	c := &controlPlane{w: w}
	c.mu.brokers = map[int32]*registration{}
	return c
}

func (c *controlPlane) topicNamed(name string) *topic {
	for _, t := range c.topics {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (c *controlPlane) topicByID(id metadata.ID) *topic {
	for _, t := range c.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

// createSets creates the PartitionSets with the topics' assignments. With a single set, all topics
// are neighbors, and their writers conflict.
func (c *controlPlane) createSets(count int32) {
	for index := range count {
		c.w.store.create(&v1alpha1.PartitionSet{Spec: v1alpha1.PartitionSetSpec{
			Cluster: "sim", Index: index, Count: count}})
	}
	for i, t := range c.topics {
		t.set = v1alpha1.PartitionSetName("sim", partitionset.Number(t.key(), count))
		c.w.store.change(t.set, true, func(s *partitionset.Set) {
			s.Assign(t.key(), partitionset.Assignment{Replicas: c.firstReplicas(i),
				Tag: partitionset.Tag(t.id)})
		})
	}
}

// firstReplicas returns the brokers to which topic i is assigned first.
func (c *controlPlane) firstReplicas(i int) (replicas []int32) {
	for j := range c.w.profile.replicas {
		replicas = append(replicas, int32((i+j)%c.w.profile.brokers))
	}
	return replicas
}

// liveness returns a broker's state as known to the operator.
func (r *registration) liveness(now time.Time) placement.Liveness {
	switch age := now.Sub(r.seen); {
	case r.exited || age > leaseExpiry:
		return placement.Down
	case age > leaseUncertain:
		return placement.Unknown
	}
	return placement.Up
}

// registered returns the states of all brokers.
func (c *controlPlane) registered() registrations {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := registrations{}
	for id, r := range c.mu.brokers {
		all[id] = placement.BrokerState{
			Liveness: r.liveness(time.Now()), Epoch: r.Epoch, CleanEpoch: r.CleanEpoch,
			BootEpoch: r.BootEpoch, Directory: r.Directory, Leaving: r.Leaving || r.isolated,
		}
	}
	return all
}

// noticeExpiry notifies all nodes if a broker's state has changed because time has passed.
func (c *controlPlane) noticeExpiry() {
	brokers := c.registered()
	summary := ""
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		summary += fmt.Sprint(id, brokers[id].Liveness, " ")
	}
	c.mu.Lock()
	changed := summary != c.mu.lastBrokers
	c.mu.lastBrokers = summary
	c.mu.Unlock()
	if changed {
		c.w.store.notify()
	}
}

// changed processes a write that changes a partition's state.
func (w *world) changed(t *topic, before, next placement.Partition, unclean bool) {
	if next.LeaderEpoch != before.LeaderEpoch {
		w.tracef(
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
		w.tracef("%s: ISR %v, replicas %v -> %v", t.name, next.ISR, next.Replicas, next.Target)
	}
	w.elected(t, before, next, unclean)
}

// image returns a node's metadata image, built from the node's caches of the sets and of the
// brokers.
func (c *controlPlane) image(sets map[string]*partitionset.Set,
	registered registrations) *metadata.Image {
	var brokers []metadata.Broker
	up := map[int32]metadata.Broker{}
	for id, state := range registered {
		if state.Liveness == placement.Down {
			continue
		}
		up[id] = metadata.Broker{ID: id, Endpoints: "kafka://sim:1", Epoch: state.Epoch,
			CleanEpoch: state.CleanEpoch, BootEpoch: state.BootEpoch, Directory: state.Directory,
			Leaving: state.Leaving}
		brokers = append(brokers, up[id])
	}
	var topics []*metadata.Topic
	for _, t := range c.topics {
		set := sets[t.set]
		if set == nil {
			continue
		}
		entry, _ := set.Get(t.key())
		partition := imaged(placedOf(entry), up)
		if entry.State != nil {
			partition.PartitionEpoch = entry.State.Changes
		}
		topics = append(topics, &metadata.Topic{Name: t.name, ID: t.id, Settings: t.settings,
			Partitions: []*metadata.Partition{partition}})
	}
	return metadata.NewImage(c.w.cluster, metadata.CleanerBudget{Workers: 1}, brokers, topics)
}

func imaged(p placement.Partition, up map[int32]metadata.Broker) *metadata.Partition {
	image := &metadata.Partition{
		Replicas: slices.Clone(p.Replicas), Leader: placement.NoLeader,
		LeaderEpoch: p.LeaderEpoch, Target: slices.Clone(p.Target),
		UnprovenEpoch: p.UnprovenEpoch,
	}
	for _, id := range p.Replicas {
		image.ReplicaIncarnations = append(image.ReplicaIncarnations, p.ReplicaIncarnations[id])
	}
	image.SetISR(p.Leader, p.ISR, up)
	for _, m := range p.ISR {
		// As in both metadata stores, a restarted broker does not count as the elected leader.
		if b, isUp := up[m.Broker]; m.Broker == p.Leader && isUp && b.Epoch == m.Epoch {
			image.Leader = p.Leader
		}
	}
	return image
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
	c.w.store.notify()
	return self.Epoch
}

// renewLease renews a Lease, unless a later broker epoch has registered.
func (c *controlPlane) renewLease(id int32, epoch int64, unreachable reachability.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.brokers[id]; r != nil && r.Epoch == epoch && !r.exited {
		before := r.liveness(time.Now())
		r.seen, r.unreachable = time.Now(), unreachable
		if before == placement.Down {
			c.w.store.notify()
		}
	}
}

// processExited processes the detected exit of a broker process. It was detected by the end of the
// container or by the release of the Lease.
func (c *controlPlane) processExited(id int32, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.exited = true
		c.w.store.notify()
	}
}

func (c *controlPlane) leave(id int32, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.Leaving = true
		c.w.store.notify()
	}
}

// recorded returns the current state of a partition.
func (c *controlPlane) recorded(name string) placement.Partition {
	if c.w.parent != nil {
		return placedOf(c.w.parent.file.get(c.topicNamed(name)))
	}
	return c.w.store.placed(c.topicNamed(name))
}
