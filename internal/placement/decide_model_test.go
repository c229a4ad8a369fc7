package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestDecideKeepsAcknowledgedRecords checks that, in a simulation of five brokers and one partition
// with random steps, the results of Decide satisfy the guarantees in doc.go. Brokers shut down, are
// killed, and return. They lose unsynced writes, their logs or their disks, and are observed as
// down although they run. Meanwhile leaders accept writes, based on the last metadata image that
// they have received. Decide runs after each step, and its result is checked against the simulated
// logs.
func TestDecideKeepsAcknowledgedRecords(t *testing.T) {
	acknowledged, elections, unclean, accepted := 0, 0, 0, 0
	for seed := range seed.Sequence(t, 600) {
		s := newSimulation(seed)
		for step := range 120 {
			did := s.step()
			if fault := s.decide() + s.fault; fault != "" {
				t.Fatalf("seed %d, step %d, after %s: %s\nbefore %+v\nafter %+v\nbrokers %+v", seed,
					step, did, fault, s.before, s.partition, s.states())
			}
		}
		acknowledged += len(s.acknowledged)
		elections += int(s.partition.LeaderEpoch)
		unclean += s.uncleanElections
		accepted += s.acceptedLosses
	}
	t.Logf("%d writes acknowledged, %d elections, %d of them unclean, %d with an accepted loss",
		acknowledged, elections, unclean, accepted)
	if _, alone := seed.Single(t); alone || testing.Short() {
		return // a few seeds are too few to reach every state
	}
	if acknowledged < 500 || elections < 500 || unclean < 100 || accepted < 10 {
		t.Error("got too few acknowledged writes, elections or unclean elections to cover the guarantees")
	}
}

// simulation is the state of the simulated cluster: the brokers with their logs, and the partition
// as stored in the metadata.
type simulation struct {
	random           *rand.Rand
	brokers          [5]*simulatedBroker
	partition        Partition
	before           Partition
	options          Options
	acknowledged     map[int]bool
	writes           int
	disks            int
	incarnations     int
	uncleanElections int
	acceptedLosses   int
	// recordsLosses is true if brokers record their losses before they register. Brokers of earlier
	// versions report them later.
	recordsLosses bool
	fault         string // violated guarantee that a step has found
}

// simulatedBroker is a broker and its log. The embedded BrokerState is the state that the operator
// observes.
type simulatedBroker struct {
	BrokerState
	running bool
	image   Partition // the partition as in the last metadata image that the broker received
	log     []int     // numbers of the writes in the broker's log
	synced  int       // number of writes in log that would survive a power failure
	lost    bool      // true if writes are missing from the log
	// lostIn is the replica incarnation id in the first image that the broker received after the loss;
	// "" before.
	lostIn string
	// recordedAs is the incarnation id with which the loss was recorded before the broker registered;
	// "" if it was not recorded, or once the broker has received an image.
	recordedAs string
	// incarnation is the replica incarnation id of the log.
	incarnation string
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{random: rand.New(rand.NewPCG(seed, 7)), acknowledged: map[int]bool{}}
	for i := range s.brokers {
		s.brokers[i] = &simulatedBroker{BrokerState: BrokerState{CleanEpoch: -1}}
		s.replaceDisk(s.brokers[i])
	}
	s.partition = Partition{Replicas: []int32{0, 1, 2}, Leader: NoLeader}
	s.options.AllowUnclean, s.recordsLosses = seed%8 == 0, seed%4 != 1
	return s
}

func (s *simulation) replaceDisk(a *simulatedBroker) {
	s.disks++
	a.Directory, a.log, a.synced, a.CleanEpoch = fmt.Sprint("disk", s.disks), nil, 0, -1
	a.lost, a.incarnation = false, ""
}

// nextIncarnation returns a new replica incarnation id.
func (s *simulation) nextIncarnation() string {
	s.incarnations++
	return fmt.Sprint("i", s.incarnations)
}

// step makes one random change and returns a description of it.
func (s *simulation) step() string {
	id := int32(s.random.IntN(len(s.brokers)))
	a := s.brokers[id]
	switch s.random.IntN(15) {
	case 0:
		return s.stop(id, a)
	case 1, 2:
		return s.start(id, a)
	case 3: // the observed liveness changes, although the broker continues to run
		if a.running {
			a.Liveness = Liveness(s.random.IntN(3))
		}
		return fmt.Sprintf("broker %d is observed as %d", id, a.Liveness)
	case 4:
		a.Leaving = a.running && s.random.IntN(3) == 0
		return fmt.Sprintf("broker %d leaving: %t", id, a.Leaving)
	case 5:
		return s.propose(id, a)
	case 6:
		if s.random.IntN(6) == 0 {
			target := s.random.Perm(len(s.brokers))[:1+s.random.IntN(3)]
			s.partition.Target = nil
			for _, id := range target {
				s.partition.Target = append(s.partition.Target, int32(id))
			}
		}
		return "a reassignment"
	case 7:
		s.options.PreferLeader = !s.options.PreferLeader
		return "a change of options"
	case 8:
		a.synced = len(a.log)
		return "a sync"
	case 9:
		if a.running {
			s.receive(id, a)
		}
		return fmt.Sprintf("broker %d receives the image", id)
	case 10, 11:
		for id, a := range s.brokers {
			s.reportLoss(int32(id), a)
		}
		return "reports of lost logs"
	case 12:
		return s.restartAll(id)
	default:
		return s.write(id, a)
	}
}

// stop stops a broker: gracefully, by a kill, by a power failure, or by the loss of its disk.
func (s *simulation) stop(id int32, a *simulatedBroker) string {
	if !a.running {
		return "nothing"
	}
	a.running, a.Leaving = false, false
	a.Liveness = Liveness(s.random.IntN(2)) // set to Down or Unknown
	how := s.random.IntN(11)
	switch {
	case how >= 8:
		a.CleanEpoch = -1
		if s.random.IntN(2) == 0 {
			a.CleanEpoch = a.Epoch
		}
		s.removeFiles(a)
	case how < 3:
		a.CleanEpoch = a.Epoch
	case how < 5:
		a.CleanEpoch = -1
	case how < 7:
		a.CleanEpoch = -1
		a.log = a.log[:a.synced+s.random.IntN(len(a.log)-a.synced+1)]
	default:
		s.replaceDisk(a)
	}
	return fmt.Sprintf("broker %d stops, kind %d", id, how)
}

// start starts a broker, with a new broker epoch.
func (s *simulation) start(id int32, a *simulatedBroker) string {
	if a.running {
		return "nothing"
	}
	s.recordLoss(id, a)
	a.Epoch++
	a.running, a.Liveness = true, Up
	s.receive(id, a)
	return fmt.Sprintf("broker %d starts with broker epoch %d", id, a.Epoch)
}

// receive gives a broker the current image. The broker discards a log of another incarnation,
// unless it leads or is in sync.
func (s *simulation) receive(id int32, a *simulatedBroker) {
	a.image = s.partition
	incarnation := a.image.ReplicaIncarnations[id]
	inISR := slices.Contains(ids(a.image.ISR), id)
	if a.lost && a.lostIn == "" {
		a.lostIn = incarnation
		if a.recordedAs != "" && a.recordedAs == incarnation {
			a.lostIn = "(recorded)"
		}
	}
	a.recordedAs = ""
	switch {
	case incarnation == a.incarnation || incarnation == "":
	case a.incarnation == "":
		a.incarnation = incarnation
	case s.leads(id, a):
		a.incarnation, a.lost = incarnation, false
	case a.image.Leader != NoLeader && !inISR:
		a.incarnation, a.lost, a.log, a.synced = incarnation, false, nil, 0
	}
}

// leads reports whether a broker considers itself the leader according to its last image.
func (s *simulation) leads(id int32, a *simulatedBroker) bool {
	return a.running && a.image.Leader == id && !a.unreported(id) &&
		slices.ContainsFunc(a.image.ISR,
			func(m InSyncReplica) bool { return m.Broker == id && m.Epoch == a.Epoch })
}

// mayFetch reports whether an ISR member, in the recorded broker epoch, fetches from a leader in
// this step. It sometimes returns false at random, as if the member were slow.
func (s *simulation) mayFetch(m InSyncReplica, leader *simulatedBroker) bool {
	follower := s.brokers[m.Broker]
	if !follower.running || follower.Epoch != m.Epoch {
		return false
	}
	if follower.lost || follower.image.LeaderEpoch != leader.image.LeaderEpoch {
		return false
	}
	return s.random.IntN(8) > 0
}

// write appends a record to the log of a broker that considers itself the leader, and lets
// followers fetch the record. It is acknowledged if every ISR member in the leader's image has
// fetched it, in the member's broker epoch in that image.
func (s *simulation) write(id int32, a *simulatedBroker) string {
	if !s.leads(id, a) {
		return "nothing"
	}
	s.writes++
	a.log = append(slices.Clip(a.log), s.writes)
	all := true
	for _, m := range a.image.ISR {
		if m.Broker == id {
			continue
		}
		if !s.mayFetch(m, a) {
			all = false
			continue
		}
		s.fetch(s.brokers[m.Broker], a)
	}
	// If unclean elections are allowed, a replaced leader that still runs can acknowledge records that
	// are then lost. Such records are not checked.
	if all && (!s.options.AllowUnclean || a.image.LeaderEpoch == s.partition.LeaderEpoch) {
		s.acknowledged[s.writes] = true
	}
	return fmt.Sprintf("broker %d writes %d, acknowledged %t", id, s.writes, all)
}

// fetch makes a follower's log equal to the leader's log.
func (s *simulation) fetch(follower, leader *simulatedBroker) {
	same := 0
	for same < min(len(follower.log), len(leader.log)) && follower.log[same] == leader.log[same] {
		same++
	}
	follower.log, follower.synced = slices.Clone(leader.log), min(follower.synced, same)
}

// propose lets a leader propose an ISR change: it removes a random member, or adds a random replica
// that has fetched the whole log.
func (s *simulation) propose(id int32, a *simulatedBroker) string {
	if !s.leads(id, a) || len(a.image.Replicas) == 0 {
		return "nothing"
	}
	other := a.image.Replicas[s.random.IntN(len(a.image.Replicas))]
	b := s.brokers[other]
	to := slices.DeleteFunc(slices.Clone(a.image.ISR),
		func(m InSyncReplica) bool { return m.Broker == other })
	if len(to) == len(a.image.ISR) {
		if !b.running || b.image.LeaderEpoch != a.image.LeaderEpoch || b.lost {
			return "nothing"
		}
		s.fetch(b, a)
		to = append(to, InSyncReplica{Broker: other, Epoch: b.Epoch})
	}
	changed, err := ChangeISR(s.partition,
		Proposal{a.image.LeaderEpoch, ids(a.image.ISR), to, a.image.ReplicaIncarnations},
		s.states())
	if err != nil {
		return fmt.Sprintf("the proposal of broker %d is rejected: %v", id, err)
	}
	s.partition, a.image = changed, changed
	return fmt.Sprintf("broker %d changes the ISR to %v", id, ids(to))
}

// states returns the states of the brokers as the operator observes them.
func (s *simulation) states() map[int32]BrokerState {
	known := map[int32]BrokerState{}
	for id, a := range s.brokers {
		known[int32(id)] = a.BrokerState
	}
	return known
}

// decide runs Decide as the operator does, and applies and checks the decision. It returns a
// description of a violated guarantee, or "".
func (s *simulation) decide() string {
	s.before = s.partition.clone()
	s.options.ReplicaIncarnation = s.nextIncarnation()
	s.acceptLoss()
	d := Decide(s.before, s.states(), s.options)
	s.partition = d.Partition
	if again := Decide(d.Partition, s.states(), s.options); !cmp.Equal(again.Partition,
		d.Partition) {
		return fmt.Sprintf("a second decision changed the result: %+v", again)
	}
	if fault := s.shape(d); fault != "" {
		return fault
	}
	// Some of the running brokers, chosen at random, receive the new image at once. The others keep an
	// older image.
	for id, a := range s.brokers {
		if a.running && s.random.IntN(3) > 0 {
			s.receive(int32(id), a)
		}
	}
	if d.Leader != NoLeader && s.brokers[d.Leader].lost &&
		d.ReplicaIncarnations[d.Leader] == s.brokers[d.Leader].lostIn {
		return "" // the broker refuses to lead, and reports its loss
	}
	if d.Unclean {
		return s.loss(d)
	}
	if d.Leader != NoLeader && d.LeaderEpoch != s.before.LeaderEpoch {
		for id := range s.acknowledged {
			if !slices.Contains(s.brokers[d.Leader].log, id) {
				return fmt.Sprintf(
					"broker %d is elected without the acknowledged write %d: %v",
					d.Leader,
					id,
					s.brokers[d.Leader].log,
				)
			}
		}
	}
	return ""
}

// acceptLoss sometimes lets a user accept that the last in-sync replica has lost its log.
func (s *simulation) acceptLoss() {
	s.options.AcceptedDataLoss = ""
	if len(s.partition.ISR) != 1 || !s.partition.ISR[0].LostLog() || s.random.IntN(2) == 0 {
		return
	}
	replica := s.partition.Replicas[s.random.IntN(len(s.partition.Replicas))]
	s.options.AcceptedDataLoss = DataLossConsent(s.brokers[replica].Directory,
		s.partition.LeaderEpoch)
}

// loss checks that an unclean election was necessary or allowed. It removes the records that the
// election has lost from s.acknowledged.
func (s *simulation) loss(d Decision) string {
	s.uncleanElections++
	disk := s.brokers[d.Leader].Directory
	if s.options.AcceptedDataLoss == DataLossConsent(disk, s.before.LeaderEpoch) {
		s.acceptedLosses++
		s.forgetLost(d.Leader)
		return ""
	}
	if !s.options.AllowUnclean && !slices.ContainsFunc(s.before.ISR,
		func(m InSyncReplica) bool { return m.Broker == d.Leader && m.Directory == disk }) {
		return fmt.Sprintf("broker %d is elected with a disk that was not in the ISR", d.Leader)
	}
	for _, m := range s.before.ISR {
		b := s.brokers[m.Broker]
		held := !m.LostLog() && b.Epoch == m.Epoch && b.Liveness != Down || b.Liveness == Up &&
			b.CleanEpoch == m.Epoch &&
			b.Directory == m.Directory
		if held && !b.Leaving ||
			!s.options.AllowUnclean && (held || b.Liveness == Down || m.LostLog()) {
			return fmt.Sprintf(
				"broker %d is elected uncleanly, although broker %d is up or may return",
				d.Leader,
				m.Broker,
			)
		}
	}
	s.forgetLost(d.Leader)
	return ""
}

// forgetLost removes the records that a leader's log lacks from s.acknowledged.
func (s *simulation) forgetLost(leader int32) {
	for id := range s.acknowledged {
		if !slices.Contains(s.brokers[leader].log, id) {
			delete(s.acknowledged, id)
		}
	}
}

// shape checks those invariants of a decision that do not depend on the logs.
func (s *simulation) shape(d Decision) string {
	leading := func(p Partition) InSyncReplica {
		for _, m := range p.ISR {
			if m.Broker == p.Leader {
				return InSyncReplica{Broker: m.Broker, Epoch: m.Epoch}
			}
		}
		return InSyncReplica{Broker: NoLeader}
	}
	changed := leading(s.before) != leading(d.Partition)
	switch {
	case d.LeaderEpoch-s.before.LeaderEpoch != map[bool]int32{true: 1}[changed]:
		return fmt.Sprintf("leader epoch from %d to %d, leader changed: %t", s.before.LeaderEpoch,
			d.LeaderEpoch,
			changed)
	case d.Leader != NoLeader && leading(d.Partition).Broker != d.Leader:
		return "the leader is not in sync"
	case len(d.ISR) == 0 && d.LeaderEpoch > 0:
		return "the ISR is empty after an election"
	case d.Leader != NoLeader && d.Leader != s.before.Leader &&
		(s.brokers[d.Leader].Liveness != Up || s.brokers[d.Leader].Leaving):
		return "the new leader is not up, or leaving"
	}
	for i, id := range d.Replicas {
		if slices.Contains(d.Replicas[:i], id) {
			return "a replica is named twice"
		}
	}
	for i, id := range ids(d.ISR) {
		if slices.Contains(ids(d.ISR)[:i], id) || !slices.Contains(d.Replicas, id) {
			return "a member is named twice or is not a replica"
		}
	}
	return ""
}
