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
	leaseDoubtful = 5 * time.Second // a lease so old says nothing for sure
	leaseExpiry   = 6 * time.Second
)

// authority is the API server and the operator: who is registered, and the partitions, each with a
// version for compare-and-swap.
type authority struct {
	w  *world
	mu struct {
		sync.Mutex
		topics    []*topic
		brokers   map[int32]*registration
		away      bool   // the operator is
		preferred bool   // leaders go home at the next decision
		lossy     bool   // somebody agrees to any loss
		living    string // who the last images had
		news      chan struct{}
	}
}

// topic is one of one partition.
type topic struct {
	name      string
	id        metadata.ID
	settings  topicconfig.Settings
	partition placement.Partition
	version   int
	// since when the operator leaves a change of the in-sync replicas to the leader; zero: there is
	// none
	lagging time.Time
}

// othersAfter is how long it does so: as long as the real one does at most.
const othersAfter = 30 * time.Second

// assignment is a name that no decision about the topic had before, unless nothing came of it.
func (t *topic) assignment() string { return fmt.Sprintf("%s@%d", t.name, t.version) }

// registration is a broker's lease.
type registration struct {
	metadata.Broker
	seen time.Time
	gone bool // its end was seen
}

func newAuthority(w *world) *authority {
	a := &authority{w: w}
	a.mu.brokers = map[int32]*registration{}
	a.mu.news = make(chan struct{})
	return a
}

// life is what the operator knows of a broker.
func (r *registration) life(now time.Time) placement.Liveness {
	switch age := now.Sub(r.seen); {
	case r.gone || age > leaseExpiry:
		return placement.Down
	case age > leaseDoubtful:
		return placement.Unknown
	}
	return placement.Up
}

func (a *authority) standingsLocked() map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	for id, r := range a.mu.brokers {
		all[id] = placement.BrokerState{
			Liveness: r.life(time.Now()), Epoch: r.Epoch, CleanEpoch: r.CleanEpoch,
			Directory: r.Directory, Leaving: r.Leaving,
		}
	}
	return all
}

// changed wakes those who wait for images.
func (a *authority) changedLocked() {
	close(a.mu.news)
	a.mu.news = make(chan struct{})
}

// decide lets the operator decide about every partition, unless it is away.
func (a *authority) decide() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.away {
		return
	}
	brokers := a.standingsLocked()
	living := ""
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		living += fmt.Sprint(id, brokers[id].Liveness, " ")
	}
	if living != a.mu.living {
		a.mu.living = living
		a.changedLocked()
	}
	for _, t := range a.mu.topics {
		wishes := placement.Options{
			PreferLeader: a.mu.preferred, AllowUnclean: t.settings.UncleanElection || a.mu.lossy,
			ReplicaIncarnation: t.assignment(),
		}
		if a.mu.lossy && t.partition.Leader == placement.NoLeader && t.partition.LeaderEpoch > 0 {
			for _, r := range a.mu.brokers {
				if slices.Contains(t.partition.Replicas, r.ID) &&
					r.life(time.Now()) == placement.Up {
					wishes.AcceptedDataLoss = placement.DataLossConsent(r.Directory,
						t.partition.LeaderEpoch)
				}
			}
		}
		decision := placement.Decide(t.partition, brokers, wishes)
		if !t.leavesTo(decision.Partition, time.Now()) {
			a.putLocked(t, decision.Partition, decision.Unclean)
		}
	}
	a.mu.preferred = false
}

// leavesTo tells whether the operator leaves a change to the leader for now: one of the in-sync
// replicas alone.
func (t *topic) leavesTo(next placement.Partition, now time.Time) bool {
	alike := next
	alike.ISR = t.partition.ISR
	if fmt.Sprint(alike) != fmt.Sprint(t.partition) || fmt.Sprint(next) == fmt.Sprint(t.partition) {
		t.lagging = time.Time{}
		return false
	}
	if t.lagging.IsZero() {
		t.lagging = now
	}
	if now.Sub(t.lagging) < othersAfter {
		return true
	}
	t.lagging = time.Time{}
	return false
}

// putLocked writes a partition if it is another one.
func (a *authority) putLocked(t *topic, next placement.Partition, unproven bool) {
	before := t.partition
	if fmt.Sprint(before) == fmt.Sprint(next) {
		return
	}
	if next.LeaderEpoch != before.LeaderEpoch {
		a.w.note(
			"%s: broker %d leads in epoch %d, ISR %v, replicas %v -> %v, unproven %t (was %d, ISR %v)",
			t.name,
			next.Leader,
			next.LeaderEpoch,
			next.ISR,
			next.Replicas,
			next.Target,
			unproven,
			before.Leader,
			before.ISR,
		)
	} else {
		a.w.note("%s: ISR %v, replicas %v -> %v", t.name, next.ISR, next.Replicas, next.Target)
	}
	a.w.elected(t, before, next, unproven)
	t.partition = next
	t.version++
	a.changedLocked()
}

// image is what brokers see of it all now.
func (a *authority) image() (image *metadata.Image, news chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var brokers []metadata.Broker
	up := map[int32]metadata.Broker{}
	for _, r := range a.mu.brokers {
		if r.life(time.Now()) != placement.Down {
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
			// As both stores do it: who came back in another life is not who was elected.
			if r := a.mu.brokers[m.Broker]; m.Broker == p.Leader && r.Epoch == m.Epoch &&
				r.life(time.Now()) != placement.Down {
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

// register brings a broker up in a new incarnation.
func (a *authority) register(self metadata.Broker) (epoch int64) {
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

// renew renews a lease. A later incarnation's is not its to renew.
func (a *authority) renew(id int32, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.mu.brokers[id]; r != nil && r.Epoch == epoch && !r.gone {
		before := r.life(time.Now())
		r.seen = time.Now()
		if before == placement.Down {
			a.changedLocked()
		}
	}
}

// ended is told when the end of a broker was seen, of its container or its lease's release.
func (a *authority) ended(id int32, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.gone = true
		a.changedLocked()
	}
}

func (a *authority) leave(id int32, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.mu.brokers[id]; r != nil && r.Epoch == epoch {
		r.Leaving = true
		a.changedLocked()
	}
}

// serving takes the logs that know a later epoch: the next election is above it.
func (a *authority) serving(id int32, served []metadata.Served) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range served {
		t := a.topicLocked(one.Topic)
		if !one.Ahead || t == nil || t.partition.Leader != id {
			continue
		}
		asked := t.partition
		asked.FoundEpoch = &one.LeaderEpoch
		decision := placement.Decide(asked, a.standingsLocked(),
			placement.Options{ReplicaIncarnation: t.assignment()})
		decision.FoundEpoch = nil
		a.putLocked(t, decision.Partition, decision.Unclean)
	}
}

func (a *authority) topicLocked(id metadata.ID) *topic {
	for _, t := range a.mu.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

var errNoAnswer = errors.New("no answer from the API server")

// changeISR is a compare-and-swap as a broker asks for it: by version, which the change is made on
// top of. late > 0: the write arrives after the broker has given up.
func (a *authority) changeISR(ctx context.Context, change metadata.ISRChange,
	late time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.topicLocked(change.Topic)
	if t == nil {
		return metadata.ErrISRConflict
	}
	changed, err := placement.ChangeISR(t.partition, change.Proposal(), a.standingsLocked())
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
			a.w.note("%s: a late write arrives", t.name)
			a.putLocked(t, changed, false)
		}
	})
	return errNoAnswer
}

// recorded is a partition as it is on record.
func (a *authority) recorded(name string) placement.Partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.mu.topics {
		if t.name == name {
			return t.partition
		}
	}
	return placement.Partition{}
}
