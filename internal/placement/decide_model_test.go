package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestDecideKeepsWhatWasAcknowledged plays a cluster of five brokers and one partition: brokers are
// killed, lose their last writes or their disks, are not seen although they live, leave and come
// back, while leaders take writes by what they last heard. After each decision the invariants of
// doc.go are checked against what the logs really hold.
func TestDecideKeepsWhatWasAcknowledged(t *testing.T) {
	acknowledged, elections, unproven := 0, 0, 0
	for seed := range seed.Sequence(t, 600) {
		w := newWorld(seed)
		for step := range 120 {
			did := w.step()
			if fault := w.decide(); fault != "" {
				t.Fatalf("seed %d, step %d, after %s: %s\nbefore %+v\nafter %+v\nbrokers %+v", seed,
					step, did, fault, w.before, w.partition, w.standings())
			}
		}
		acknowledged += len(w.acknowledged)
		elections += int(w.partition.LeaderEpoch)
		unproven += w.unproven
	}
	t.Logf("%d writes acknowledged, %d elections, %d of them unproven", acknowledged, elections,
		unproven)
	if _, alone := seed.Alone(t); alone {
		return
	}
	if acknowledged < 500 || elections < 500 || unproven < 100 {
		t.Error("the play does not reach what it is for")
	}
}

// world is what is, and what each broker last heard of it.
type world struct {
	random       *rand.Rand
	brokers      [5]*actor
	partition    Partition
	before       Partition
	wishes       Options
	acknowledged map[int]bool
	writes       int
	disks        int
	unproven     int
}

// actor is a broker.
type actor struct {
	BrokerState
	alive  bool
	heard  Partition // the last image it saw
	log    []int     // the writes it holds, in order
	synced int       // how many of them a power cut leaves
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7)), acknowledged: map[int]bool{}}
	for i := range w.brokers {
		w.brokers[i] = &actor{BrokerState: BrokerState{CleanEpoch: -1}}
		w.swap(w.brokers[i])
	}
	w.partition = Partition{Replicas: []int32{0, 1, 2}, Leader: NoLeader}
	w.wishes.AllowUnclean = seed%8 == 0
	return w
}

func (w *world) swap(a *actor) {
	w.disks++
	a.Directory, a.log, a.synced, a.CleanEpoch = fmt.Sprint("disk", w.disks), nil, 0, -1
}

// step does one thing to a broker.
func (w *world) step() string {
	id := int32(w.random.IntN(len(w.brokers)))
	a := w.brokers[id]
	switch w.random.IntN(12) {
	case 0:
		return w.stop(id, a)
	case 1, 2:
		return w.start(id, a)
	case 3: // it is seen, or not, or not well
		if a.alive {
			a.Liveness = Liveness(w.random.IntN(3))
		}
		return fmt.Sprintf("broker %d is seen as %d", id, a.Liveness)
	case 4:
		a.Leaving = a.alive && w.random.IntN(3) == 0
		return fmt.Sprintf("broker %d leaves: %t", id, a.Leaving)
	case 5:
		return w.propose(id, a)
	case 6:
		if w.random.IntN(6) == 0 {
			target := w.random.Perm(len(w.brokers))[:1+w.random.IntN(3)]
			w.partition.Target = nil
			for _, id := range target {
				w.partition.Target = append(w.partition.Target, int32(id))
			}
		}
		return "a reassignment"
	case 7:
		w.wishes.PreferLeader = !w.wishes.PreferLeader
		return "a change of wishes"
	case 8:
		a.synced = len(a.log)
		return "a sync"
	case 9:
		if a.alive {
			a.heard = w.partition
		}
		return fmt.Sprintf("broker %d hears", id)
	default:
		return w.write(id, a)
	}
}

// stop ends a broker: in order, by a kill, by a power cut, or with its disk.
func (w *world) stop(id int32, a *actor) string {
	if !a.alive {
		return "nothing"
	}
	a.alive, a.Leaving = false, false
	a.Liveness = Liveness(w.random.IntN(2)) // gone, or not yet known to be
	how := w.random.IntN(8)
	switch {
	case how < 3:
		a.CleanEpoch = a.Epoch
	case how < 5:
		a.CleanEpoch = -1
	case how < 7:
		a.CleanEpoch = -1
		a.log = a.log[:a.synced+w.random.IntN(len(a.log)-a.synced+1)]
	default:
		w.swap(a)
	}
	return fmt.Sprintf("broker %d stops, way %d", id, how)
}

// start brings a broker up in a new incarnation. What a killed one is proven by is its disk, read
// at the start and not after.
func (w *world) start(id int32, a *actor) string {
	if a.alive {
		return "nothing"
	}
	a.Epoch++
	a.alive, a.Liveness = true, Up
	a.heard = w.partition
	return fmt.Sprintf("broker %d starts in incarnation %d", id, a.Epoch)
}

// leads tells whether a broker holds itself for the leader.
func (w *world) leads(id int32, a *actor) bool {
	return a.alive && a.heard.Leader == id &&
		slices.ContainsFunc(a.heard.ISR,
			func(m InSyncReplica) bool { return m.Broker == id && m.Epoch == a.Epoch })
}

// write lets a broker that holds itself for the leader append, and those that agree fetch. It is
// acknowledged when all have it that the leader holds for in sync, each in the incarnation that the
// leader knows.
func (w *world) write(id int32, a *actor) string {
	if !w.leads(id, a) {
		return "nothing"
	}
	w.writes++
	a.log = append(slices.Clip(a.log), w.writes)
	all := true
	for _, m := range a.heard.ISR {
		follower := w.brokers[m.Broker]
		if m.Broker == id {
			continue
		}
		if !follower.alive || follower.Epoch != m.Epoch ||
			follower.heard.LeaderEpoch != a.heard.LeaderEpoch || w.random.IntN(8) == 0 {
			all = false
			continue
		}
		w.fetch(follower, a)
	}
	// Under a topic that would rather lose records, a leader that nobody sees may go on alone in
	// sync: those are what it loses.
	if all && (!w.wishes.AllowUnclean || a.heard.LeaderEpoch == w.partition.LeaderEpoch) {
		w.acknowledged[w.writes] = true
	}
	return fmt.Sprintf("broker %d writes %d, acknowledged %t", id, w.writes, all)
}

// fetch makes a follower's log the leader's.
func (w *world) fetch(follower, leader *actor) {
	same := 0
	for same < min(len(follower.log), len(leader.log)) && follower.log[same] == leader.log[same] {
		same++
	}
	follower.log, follower.synced = slices.Clone(leader.log), min(follower.synced, same)
}

// propose lets a leader take a replica in that has caught up, or put one out.
func (w *world) propose(id int32, a *actor) string {
	if !w.leads(id, a) || len(a.heard.Replicas) == 0 {
		return "nothing"
	}
	other := a.heard.Replicas[w.random.IntN(len(a.heard.Replicas))]
	b := w.brokers[other]
	to := slices.DeleteFunc(slices.Clone(a.heard.ISR),
		func(m InSyncReplica) bool { return m.Broker == other })
	if len(to) == len(a.heard.ISR) {
		if !b.alive || b.heard.LeaderEpoch != a.heard.LeaderEpoch {
			return "nothing"
		}
		w.fetch(b, a)
		to = append(to, InSyncReplica{Broker: other, Epoch: b.Epoch})
	}
	changed, err := ChangeISR(w.partition,
		Proposal{a.heard.LeaderEpoch, ids(a.heard.ISR), to, a.heard.ReplicaIncarnations},
		w.standings())
	if err != nil {
		return fmt.Sprintf("broker %d is refused: %v", id, err)
	}
	w.partition, a.heard = changed, changed
	return fmt.Sprintf("broker %d makes the ISR %v", id, ids(to))
}

// standings are what is known of brokers. What a dead one's disk proves is not known before it
// starts.
func (w *world) standings() map[int32]BrokerState {
	known := map[int32]BrokerState{}
	for id, a := range w.brokers {
		known[int32(id)] = a.BrokerState
	}
	return known
}

// decide lets the operator decide, and checks it.
func (w *world) decide() string {
	w.before = w.partition.clone()
	d := Decide(w.before, w.standings(), w.wishes)
	w.partition = d.Partition
	if again := Decide(d.Partition, w.standings(), w.wishes); !cmp.Equal(again.Partition,
		d.Partition) {
		return fmt.Sprintf("decided again: %+v", again)
	}
	if fault := w.shape(d); fault != "" {
		return fault
	}
	// Its own consequences come at once to some, later to others.
	for _, a := range w.brokers {
		if a.alive && w.random.IntN(3) > 0 {
			a.heard = w.partition
		}
	}
	if d.Unclean {
		return w.loss(d)
	}
	if d.Leader != NoLeader && d.LeaderEpoch != w.before.LeaderEpoch {
		for id := range w.acknowledged {
			if !slices.Contains(w.brokers[d.Leader].log, id) {
				return fmt.Sprintf(
					"broker %d is elected without write %d, which was acknowledged: %v",
					d.Leader,
					id,
					w.brokers[d.Leader].log,
				)
			}
		}
	}
	return ""
}

// loss checks that a leader without proof was the last resort, and forgets what is lost by it.
func (w *world) loss(d Decision) string {
	w.unproven++
	disk := w.brokers[d.Leader].Directory
	if !w.wishes.AllowUnclean && !slices.ContainsFunc(w.before.ISR,
		func(m InSyncReplica) bool { return m.Broker == d.Leader && m.Directory == disk }) {
		return fmt.Sprintf("broker %d is elected with a disk that was never in sync", d.Leader)
	}
	for _, m := range w.before.ISR {
		b := w.brokers[m.Broker]
		held := b.Epoch == m.Epoch && b.Liveness != Down || b.Liveness == Up &&
			b.CleanEpoch == m.Epoch &&
			b.Directory == m.Directory
		if held && !b.Leaving || !w.wishes.AllowUnclean && (held || b.Liveness == Down) {
			return fmt.Sprintf(
				"broker %d is elected without proof, and %d is there or may come back",
				d.Leader,
				m.Broker,
			)
		}
	}
	for id := range w.acknowledged {
		if !slices.Contains(w.brokers[d.Leader].log, id) {
			delete(w.acknowledged, id)
		}
	}
	return ""
}

// shape checks the invariants that need no logs.
func (w *world) shape(d Decision) string {
	incarnation := func(p Partition) InSyncReplica {
		for _, m := range p.ISR {
			if m.Broker == p.Leader {
				return InSyncReplica{Broker: m.Broker, Epoch: m.Epoch}
			}
		}
		return InSyncReplica{Broker: NoLeader}
	}
	changed := incarnation(w.before) != incarnation(d.Partition)
	switch {
	case d.LeaderEpoch-w.before.LeaderEpoch != map[bool]int32{true: 1}[changed]:
		return fmt.Sprintf("epoch from %d to %d, changed: %t", w.before.LeaderEpoch, d.LeaderEpoch,
			changed)
	case d.Leader != NoLeader && incarnation(d.Partition).Broker != d.Leader:
		return "the leader is not in sync"
	case len(d.ISR) == 0 && d.LeaderEpoch > 0:
		return "nobody is in sync: where the records are is forgotten"
	case d.Leader != NoLeader && d.Leader != w.before.Leader && (w.brokers[d.Leader].Liveness != Up || w.brokers[d.Leader].Leaving):
		return "the leader is new, and not up or about to leave"
	}
	for i, id := range d.Replicas {
		if slices.Contains(d.Replicas[:i], id) {
			return "a replica comes twice"
		}
	}
	for i, id := range ids(d.ISR) {
		if slices.Contains(ids(d.ISR)[:i], id) || !slices.Contains(d.Replicas, id) {
			return "a member comes twice, or is no replica"
		}
	}
	return ""
}
