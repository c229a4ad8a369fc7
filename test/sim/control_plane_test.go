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
		topics     []*topic
		brokers    map[int32]*registration
		away       bool   // the operator is down
		preferred  bool   // the next decision moves leaders to their preferred replicas
		acceptLoss bool   // an administrator accepts any data loss
		living     string // the brokers in the last image, for comparison
		news       chan struct{}
	}
}

// topic is a topic with one partition.
type topic struct {
	name      string
	id        metadata.ID
	settings  topicconfig.Settings
	partition placement.Partition
	version   int
	// deferredSince is when the operator begin to leave an ISR change to the leader; zero: it does
	// not.
	deferredSince time.Time
}

// takeoverDelay is how long the operator leaves an ISR change to the leader: the maximum of the
// real operator.
const takeoverDelay = 30 * time.Second

// newIncarnation returns a replica incarnation id that no earlier decision about the topic has
// used, unless that decision changed nothing.
func (t *topic) newIncarnation() string { return fmt.Sprintf("%s@%d", t.name, t.version) }

// registration is a registered broker and its Lease.
type registration struct {
	metadata.Broker
	seen time.Time
	gone bool // its exit was seen
}

func newControlPlane(w *world) *controlPlane {
	a := &controlPlane{w: w}
	a.mu.brokers = map[int32]*registration{}
	a.mu.news = make(chan struct{})
	return a
}

// liveness returns what the operator knows of a broker.
func (r *registration) liveness(now time.Time) placement.Liveness {
	switch age := now.Sub(r.seen); {
	case r.gone || age > leaseExpiry:
		return placement.Down
	case age > leaseUncertain:
		return placement.Unknown
	}
	return placement.Up
}

func (a *controlPlane) brokerStatesLocked() map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	for id, r := range a.mu.brokers {
		all[id] = placement.BrokerState{
			Liveness: r.liveness(time.Now()), Epoch: r.Epoch, CleanEpoch: r.CleanEpoch,
			Directory: r.Directory, Leaving: r.Leaving,
		}
	}
	return all
}

// changedLocked wakes the brokers that wait for an image.
func (a *controlPlane) changedLocked() {
	close(a.mu.news)
	a.mu.news = make(chan struct{})
}

// decide lets the operator decide about every partition, unless it is down.
func (a *controlPlane) decide() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.away {
		return
	}
	brokers := a.brokerStatesLocked()
	living := ""
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		living += fmt.Sprint(id, brokers[id].Liveness, " ")
	}
	if living != a.mu.living {
		a.mu.living = living
		a.changedLocked()
	}
	for _, t := range a.mu.topics {
		options := placement.Options{
			PreferLeader:       a.mu.preferred,
			AllowUnclean:       t.settings.UncleanElection || a.mu.acceptLoss,
			ReplicaIncarnation: t.newIncarnation(),
		}
		if a.mu.acceptLoss && t.partition.Leader == placement.NoLeader &&
			t.partition.LeaderEpoch > 0 {
			for _, r := range a.mu.brokers {
				if slices.Contains(t.partition.Replicas, r.ID) &&
					r.liveness(time.Now()) == placement.Up {
					options.AcceptedDataLoss = placement.DataLossConsent(r.Directory,
						t.partition.LeaderEpoch)
				}
			}
		}
		decision := placement.Decide(t.partition, brokers, options)
		if !t.leavesToLeader(decision.Partition, time.Now()) {
			a.putLocked(t, decision.Partition, decision.Unclean)
		}
	}
	a.mu.preferred = false
}

// leavesToLeader reports whether the operator leaves a change to the leader for now: one that only
// affects the ISR.
func (t *topic) leavesToLeader(next placement.Partition, now time.Time) bool {
	alike := next
	alike.ISR = t.partition.ISR
	if fmt.Sprint(alike) != fmt.Sprint(t.partition) || fmt.Sprint(next) == fmt.Sprint(t.partition) {
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
func (a *controlPlane) putLocked(t *topic, next placement.Partition, unclean bool) {
	before := t.partition
	if fmt.Sprint(before) == fmt.Sprint(next) {
		return
	}
	if next.LeaderEpoch != before.LeaderEpoch {
		a.w.tracef(
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
		a.w.tracef("%s: ISR %v, replicas %v -> %v", t.name, next.ISR, next.Replicas, next.Target)
	}
	a.w.elected(t, before, next, unclean)
	t.partition = next
	t.version++
	a.changedLocked()
}

// image returns the current metadata image, and a channel that is closed when it changes.
func (a *controlPlane) image() (image *metadata.Image, news chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var brokers []metadata.Broker
	up := map[int32]metadata.Broker{}
	for _, r := range a.mu.brokers {
		if r.liveness(time.Now()) != placement.Down {
			brokers = append(brokers, r.Broker)
			up[r.ID] = r.Broker
		}
	}
	var topics []*metadata.Topic
	for _, t := range a.mu.topics {
		p := t.partition
		made := &metadata.Partition{
			Replicas: slices.Clone(p.Replicas), Leader: placement.NoLeader,
			LeaderEpoch: p.LeaderEpoch, Target: slices.Clone(p.Target),
			UnprovenEpoch: p.UnprovenEpoch,
		}
		for _, id := range p.Replicas {
			made.ReplicaIncarnations = append(made.ReplicaIncarnations, p.ReplicaIncarnations[id])
		}
		made.SetISR(p.Leader, p.ISR, up)
		for _, m := range p.ISR {
			// Like both stores: a restarted broker is not the elected leader.
			if r := a.mu.brokers[m.Broker]; m.Broker == p.Leader && r.Epoch == m.Epoch &&
				r.liveness(time.Now()) != placement.Down {
				made.Leader = p.Leader
			}
		}
		topics = append(topics,
			&metadata.Topic{Name: t.name, ID: t.id, Settings: t.settings,
				Partitions: []*metadata.Partition{made}})
	}
	return metadata.NewImage("simulated", metadata.CleanerBudget{Workers: 1}, brokers, topics),
		a.mu.news
}

// register registers a broker with a new broker epoch.
func (a *controlPlane) register(self metadata.Broker) (epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	self.Epoch = 1
	if old := a.mu.brokers[self.ID]; old != nil {
		self.Epoch = old.Epoch + 1
	}
	a.mu.brokers[self.ID] = &registration{Broker: self, seen: time.Now()}
	a.changedLocked()
	return self.Epoch
}

// renew renews a Lease, unless a later broker epoch holds it.
func (a *controlPlane) newProducer(id int32, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.mu.brokers[id]; r != nil && r.Epoch == epoch && !r.gone {
		before := r.liveness(time.Now())
		r.seen = time.Now()
		if before == placement.Down {
			a.changedLocked()
		}
	}
}

// processExited records that the exit of a broker process was seen: the end of its container, or
// the release of its Lease.
func (a *controlPlane) processExited(id int32, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.gone = true
		a.changedLocked()
	}
}

func (a *controlPlane) leave(id int32, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.Leaving = true
		a.changedLocked()
	}
}

// serving processes the logs that contain a later leader epoch: the next election uses a higher
// one.
func (a *controlPlane) serving(id int32, served []metadata.Served) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range served {
		t := a.topicLocked(one.Topic)
		if !one.Ahead || t == nil || t.partition.Leader != id {
			continue
		}
		asked := t.partition
		asked.FoundEpoch = &one.LeaderEpoch
		decision := placement.Decide(asked, a.brokerStatesLocked(),
			placement.Options{ReplicaIncarnation: t.newIncarnation()})
		decision.FoundEpoch = nil
		a.putLocked(t, decision.Partition, decision.Unclean)
	}
}

func (a *controlPlane) topicLocked(id metadata.ID) *topic {
	for _, t := range a.mu.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

var errNoAnswer = errors.New("no answer from the API server")

// changeISR changes the ISR on behalf of a broker, by compare-and-swap on the version. With late >
// 0 the write arrives after the broker has abandoned the request.
func (a *controlPlane) changeISR(ctx context.Context, change metadata.ISRChange,
	late time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.topicLocked(change.Topic)
	if t == nil {
		return metadata.ErrISRConflict
	}
	changed, err := placement.ChangeISR(t.partition, change.Proposal(), a.brokerStatesLocked())
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrISRConflict, err)
	}
	if late == 0 {
		a.putLocked(t, changed, false)
		return nil
	}
	version := t.version
	a.w.spawn(func() {
		if sleep(a.w.ctx, late) != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if t.version == version {
			a.w.tracef("%s: late write arrived", t.name)
			a.putLocked(t, changed, false)
		}
	})
	return errNoAnswer
}

// recorded returns the current state of a partition.
func (a *controlPlane) recorded(name string) placement.Partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.mu.topics {
		if t.name == name {
			return t.partition
		}
	}
	return placement.Partition{}
}
