package election

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/seed"
)

// brokerUp returns the state of a live broker after its first start or after an unclean restart.
func brokerUp(epoch int64, directory string) placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: epoch, Directory: directory,
		CleanEpoch: -1}
}

// decode returns a set with the given entries.
func decode(t *testing.T, assignments, states map[string]string) *partitionset.Set {
	t.Helper()
	set, faults := partitionset.Decode(&v1alpha1.PartitionSet{
		Spec:   v1alpha1.PartitionSetSpec{Assignments: assignments},
		Status: v1alpha1.PartitionSetStatus{Partitions: states},
	}, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return set
}

var orders = partitionset.Key{Topic: "orders"}

// history is a partition with one replica, on broker 0. Each call of elect makes an election.
type history struct {
	set     *partitionset.Set
	consent string
}

func newHistory(t *testing.T) *history {
	return &history{set: decode(t, map[string]string{"orders/0": "0 topic-id"}, nil)}
}

// elect makes the elections for a given state of broker 0 and a given number of partitions of the
// Topic.
func (h *history) elect(state placement.BrokerState, topicPartitions int32) partitionset.State {
	b := ballot{Input: partitionset.Input{Brokers: map[int32]placement.BrokerState{0: state},
		Topics: map[string]partitionset.Topic{"orders": {Tag: "topic-id",
			Partitions: topicPartitions, AcceptedDataLoss: map[int32]string{0: h.consent}}},
		Incarnation: "new"}}
	b.decide(h.set)
	return h.state()
}

func (h *history) state() partitionset.State {
	entry, _ := h.set.Get(orders)
	if entry.State == nil {
		return partitionset.State{Partition: placement.Partition{Leader: placement.NoLeader}}
	}
	return *entry.State
}

// change changes the partition's state as its leader would.
func (h *history) change(change func(*partitionset.State)) {
	state := h.state()
	change(&state)
	h.set.PutState(orders, state)
}

func (h *history) serve() { h.change(func(s *partitionset.State) { s.Serving = true }) }

// expect checks the leader, the leader epoch, the only in-sync replica's broker epoch, and whether
// the leader serves.
func (h *history) expect(t *testing.T, leader, epoch int32, brokerEpoch int64, serving bool) {
	t.Helper()
	state := h.state()
	if state.Leader != leader || state.LeaderEpoch != epoch || state.Serving != serving {
		t.Errorf("got leader %d, leader epoch %d, serving %t; want %d, %d, %t", state.Leader,
			state.LeaderEpoch, state.Serving, leader, epoch, serving)
	}
	if len(state.ISR) != 1 || state.ISR[0].Broker != 0 || state.ISR[0].Epoch != brokerEpoch {
		t.Errorf("got isr %+v, want broker 0 with broker epoch %d", state.ISR, brokerEpoch)
	}
}

func TestElectionsOverThePartitionsLifetime(t *testing.T) {
	h := newHistory(t)
	if state := h.elect(placement.BrokerState{}, 1); state.LeaderEpoch != 0 ||
		state.Leader != placement.NoLeader {
		t.Errorf("before any election: got %+v, want no leader, epoch 0", state)
	}
	h.elect(brokerUp(1, "disk"), 1)
	h.expect(t, 0, 1, 1, false)
	h.serve()
	h.elect(brokerUp(1, "disk"), 1)
	h.expect(t, 0, 1, 1, true)

	// The broker fails. The leader epoch increases, which makes the failed leader's writes fail.
	h.elect(placement.BrokerState{}, 1)
	h.expect(t, -1, 2, 1, false)
	h.elect(placement.BrokerState{}, 1)
	h.expect(t, -1, 2, 1, false)

	// The broker returns with the next broker epoch and the same disk.
	h.elect(brokerUp(2, "disk"), 1)
	h.expect(t, 0, 3, 2, false)

	// The broker restarts so fast that the operator never observes it as down.
	h.serve()
	h.elect(brokerUp(3, "disk"), 1)
	h.expect(t, 0, 4, 3, false)

	// The Topic is deleted and created again.
	h.elect(brokerUp(3, "disk"), 0)
	h.expect(t, -1, 5, 3, false)
	h.elect(brokerUp(3, "disk"), 1)
	h.expect(t, 0, 6, 3, false)

	// The leader's disk fails. The broker remains the leader, because no other broker has the records.
	h.serve()
	h.change(func(s *partitionset.State) { s.Serving = false })
	h.elect(brokerUp(3, "disk"), 1)
	h.expect(t, 0, 6, 3, false)
}

func TestBrokerOfUnknownLivenessKeepsLeadershipAndGainsNone(t *testing.T) {
	unknown := func(epoch int64, directory string) placement.BrokerState {
		broker := brokerUp(epoch, directory)
		broker.Liveness = placement.Unknown
		return broker
	}
	h := newHistory(t)
	if state := h.elect(unknown(1, "disk"), 1); state.Leader != placement.NoLeader {
		t.Errorf("got leader %d, want none", state.Leader)
	}
	h.elect(brokerUp(1, "disk"), 1)
	h.serve()
	h.elect(unknown(1, "disk"), 1)
	h.expect(t, 0, 1, 1, true)
	// The broker now has a later broker epoch than at its election.
	h.elect(unknown(2, "disk"), 1)
	h.expect(t, -1, 2, 1, false)
	h.elect(unknown(1, "disk"), 1)
	h.expect(t, -1, 2, 1, false)
}

func TestBrokerWithAReplacedDiskIsNotElected(t *testing.T) {
	h := newHistory(t)
	h.elect(brokerUp(1, "old"), 1)
	h.elect(placement.BrokerState{}, 1)
	h.elect(brokerUp(2, "new"), 1)
	h.expect(t, -1, 2, 1, false)

	// The broker returns with its old disk.
	h.elect(brokerUp(3, "old"), 1)
	h.expect(t, 0, 3, 3, false)

	// For once, the broker's Lease does not name its disk. The known disk is kept.
	h.elect(brokerUp(3, ""), 1)

	// The disk is replaced again, but the operator did not observe the broker as down. Only a consent
	// with the id of the current disk takes effect.
	h.elect(brokerUp(4, "new"), 1)
	h.expect(t, -1, 4, 3, false)
	h.consent = "another"
	h.elect(brokerUp(4, "new"), 1)
	h.expect(t, -1, 4, 3, false)
	h.consent = "new"
	h.elect(brokerUp(4, "new"), 1)
	h.expect(t, 0, 5, 4, false)
}

// TestElectionExceedsAFoundEpoch checks an election after the entries were lost. The partition
// starts at leader epoch 0, but the leader finds leader epoch 7 in its log, so the next election
// must start an epoch above 7.
func TestElectionExceedsAFoundEpoch(t *testing.T) {
	h := newHistory(t)
	h.elect(brokerUp(1, "disk"), 1)
	h.set.ReportFoundEpoch(orders, 0, 7)
	h.elect(brokerUp(1, "disk"), 1)
	h.expect(t, 0, 8, 1, false)
	if h.state().FoundEpoch != nil {
		t.Error("the found epoch is still set after the election")
	}
	h.serve()
	h.elect(brokerUp(1, "disk"), 1)
	h.expect(t, 0, 8, 1, true)

	// The leader reports leader epoch 20 and fails before the next election.
	h.set.ReportFoundEpoch(orders, 0, 20)
	h.elect(placement.BrokerState{}, 1)
	h.elect(brokerUp(2, "disk"), 1)
	h.expect(t, 0, 21, 2, false)
}

// TestElectionInvariants runs random sequences of broker states. The leader epoch must never
// decrease, and must increase whenever the leader or the leader's broker epoch changes. The leader
// must be up and have the records. A repeated election must change nothing.
func TestElectionInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 200 {
		h := newHistory(t)
		epoch, disk := int64(1), "a"
		for range 50 {
			state := placement.BrokerState{}
			if random.IntN(3) > 0 {
				if random.IntN(2) == 0 { // the broker restarts, sometimes with another disk
					epoch, disk = epoch+1, []string{"a", "b"}[random.IntN(10)/9]
				}
				state = brokerUp(epoch, disk)
				if random.IntN(5) == 0 {
					state.Liveness = placement.Unknown
				}
			}
			before := h.state()
			checkInvariants(t, before, h.elect(state, int32(random.IntN(5))), state)
			again := h.elect(state, 1) // elects a leader if the previous call had no Topic
			if repeated := h.elect(state, 1); !reflect.DeepEqual(again, repeated) {
				t.Fatalf("a repeated election changed the state (-first +repeated): %s",
					cmp.Diff(again, repeated))
			}
			if random.IntN(2) == 0 {
				h.serve()
			}
		}
	}
}

func checkInvariants(t *testing.T, before, after partitionset.State, state placement.BrokerState) {
	t.Helper()
	sameLeader := before.Leader == after.Leader && reflect.DeepEqual(before.ISR, after.ISR)
	switch {
	case sameLeader && before.LeaderEpoch != after.LeaderEpoch:
		t.Fatalf("the leader epoch changed without a change of leader or ISR: %+v to %+v", before, after)
	case !sameLeader && after.LeaderEpoch != before.LeaderEpoch+1:
		t.Fatalf("leader or ISR changed, but the leader epoch did not grow by one: %+v to %+v", before, after)
	case after.Leader >= 0 && state.Liveness == placement.Down:
		t.Fatalf("the leader is down: %+v", after)
	case after.LeaderEpoch > before.LeaderEpoch && after.Leader >= 0 && state.Liveness != placement.Up:
		t.Fatalf("a broker of unknown liveness was elected: %+v to %+v", before, after)
	case after.Leader >= 0 && (after.ISR[0].Epoch != state.Epoch ||
		after.LeaderDirectory != state.Directory):
		t.Fatalf("the leader has another broker epoch or disk than the broker that is up: %+v, broker %+v", after, state)
	case before.LeaderDirectory != "" && before.LeaderDirectory != after.LeaderDirectory:
		t.Fatalf("the leader lacks the records: %+v to %+v", before, after)
	case after.Serving && (!sameLeader || !before.Serving):
		t.Fatalf("a leader serves that has not reported it: %+v to %+v", before, after)
	}
}

// TestNewReplicaGetsAnIncarnationID checks that each added replica gets a new incarnation id, even
// if its broker was a replica before. A replica that remains keeps its id, and a repeated election
// changes no id.
func TestNewReplicaGetsAnIncarnationID(t *testing.T) {
	h := newHistory(t)
	elections := 0
	decide := func(replicas ...int32) string {
		t.Helper()
		h.set.Assign(orders, partitionset.Assignment{Replicas: replicas, Tag: "topic-id"})
		brokers := map[int32]placement.BrokerState{0: brokerUp(1, "disk"), 1: brokerUp(1, "disk"),
			2: brokerUp(1, "disk")}
		for range 2 {
			elections++
			b := ballot{Input: partitionset.Input{Brokers: brokers,
				Topics:      map[string]partitionset.Topic{"orders": {Tag: "topic-id", Partitions: 1}},
				Incarnation: strconv.Itoa(elections)}}
			b.decide(h.set)
		}
		text := ""
		for _, id := range h.state().Replicas {
			if incarnation := h.state().ReplicaIncarnations[id]; incarnation != "" {
				text += fmt.Sprintf(" %d:%s", id, incarnation)
			}
		}
		return text
	}
	for _, step := range []struct {
		replicas []int32
		want     string
	}{
		{[]int32{0, 1}, " 0:1 1:1"},
		{[]int32{0, 1, 2}, " 0:1 1:1 2:3"},
		{[]int32{0, 1}, " 0:1 1:1"},
		{[]int32{0, 1, 2}, " 0:1 1:1 2:7"},
	} {
		if got := decide(step.replicas...); got != step.want {
			t.Errorf("replicas %v: got incarnation ids%s, want%s", step.replicas, got, step.want)
		}
	}
}

// TestRecreatedPartitionIsLedByAnInSyncReplica checks that only an in-sync replica can lead a
// recreated partition, with a later leader epoch. Another replica that is up and has a log cannot.
func TestRecreatedPartitionIsLedByAnInSyncReplica(t *testing.T) {
	for name, test := range map[string]struct {
		brokers map[int32]placement.BrokerState
		leader  int32
		isr     int
	}{
		"all up": {map[int32]placement.BrokerState{0: brokerUp(9, "disk 0"),
			1: brokerUp(4, "disk 1"), 2: brokerUp(5, "disk 2")}, 1, 2},
		"only a replica that is not in sync": {map[int32]placement.BrokerState{0: brokerUp(9,
			"disk 0")}, placement.NoLeader, 2},
		"one in-sync replica up": {map[int32]placement.BrokerState{0: brokerUp(9, "disk 0"),
			2: brokerUp(5, "disk 2")}, 2, 1},
		"in-sync replica with another disk": {map[int32]placement.BrokerState{0: brokerUp(9,
			"disk 0"), 2: brokerUp(6, "disk 3")}, placement.NoLeader, 2},
		"in-sync replica after an unclean restart": {map[int32]placement.BrokerState{2: brokerUp(6,
			"disk 2")}, placement.NoLeader, 2},
	} {
		set, _ := partitionset.Decode(&v1alpha1.PartitionSet{
			Spec: v1alpha1.PartitionSetSpec{Assignments: map[string]string{
				"orders/0": "0,1,2 topic-id"}},
			Status: v1alpha1.PartitionSetStatus{Partitions: map[string]string{
				"orders/0": "-@8 0,1:4,2:5 a,b,c 12 dir=disk-2 unproven=3"},
				Directories: map[string]string{"1:4": "disk 1", "2:5": "disk 2"}},
		}, nil)
		b := ballot{Input: partitionset.Input{Brokers: test.brokers,
			Topics: map[string]partitionset.Topic{"orders": {Tag: "topic-id", Partitions: 1}}}}
		for range 2 {
			b.decide(set)
		}
		entry, _ := set.Get(orders)
		state := entry.State
		if state.Leader != test.leader || state.LeaderEpoch < 8 {
			t.Errorf("%s: leader %d in epoch %d, want %d in epoch 8 or later", name, state.Leader,
				state.LeaderEpoch, test.leader)
		}
		if len(state.ISR) != test.isr {
			t.Errorf("%s: ISR %+v, want %d members", name, state.ISR, test.isr)
		}
		if state.UnprovenEpoch != 3 {
			t.Errorf("%s: unproven epoch %d, want 3", name, state.UnprovenEpoch)
		}
		incarnations := map[int32]string{0: "a", 1: "b", 2: "c"}
		if got := state.ReplicaIncarnations; !reflect.DeepEqual(got, incarnations) {
			t.Errorf("%s: replica incarnations %v, want %v", name, got, incarnations)
		}
	}
}

// TestISRChangesShareTheWriteOfElections checks that ISR changes after a broker's failure cause no
// write of their own. If an election writes the set, the write also contains the ISR changes. After
// the return of a broker, ISR changes are left to the leaders.
func TestISRChangesShareTheWriteOfElections(t *testing.T) {
	topics := map[string]partitionset.Topic{"orders": {Tag: "topic-id", Partitions: 9}}
	brokers := map[int32]placement.BrokerState{0: {}, 1: brokerUp(1, ""), 2: brokerUp(1, "")}
	follows := "1@5 1:1,0:1,2:1 x 9" // broker 0 is a follower
	for _, test := range []struct {
		name             string
		states           map[string]string
		failed, returned time.Duration
		want             []int32 // ISR of orders/0
		changed          bool
	}{
		{"settled", map[string]string{"orders/0": follows}, 0, 0, []int32{1, 2}, true},
		{"only ISRs", map[string]string{"orders/0": follows}, time.Second, 0,
			[]int32{1, 0, 2}, false},
		{"an election, too", map[string]string{"orders/0": follows,
			"orders/1": "0@3 0:1,1:1 x 4"}, time.Second, 0, []int32{1, 2}, true},
		{"another broker has returned", map[string]string{"orders/0": follows,
			"orders/1": "0@3 0:1,1:1 x 4"}, time.Second, time.Second, []int32{1, 0, 2}, true},
		{"the leader does not serve", map[string]string{"orders/0": "1@5? 1:1,0:1,2:1 x 9"},
			time.Second, time.Second, []int32{1, 2}, true},
	} {
		set := decode(t, map[string]string{"orders/0": "1,0,2 topic-id",
			"orders/1": "0,1 topic-id"}, test.states)
		if len(test.states) == 1 {
			set.Unassign(partitionset.Key{Topic: "orders", Index: 1})
		}
		b := ballot{Input: partitionset.Input{Brokers: brokers, Topics: topics},
			leaveISR: test.failed, returned: test.returned}
		b.decide(set)
		entry, _ := set.Get(orders)
		var isr []int32
		for _, m := range entry.State.ISR {
			isr = append(isr, m.Broker)
		}
		if !slices.Equal(isr, test.want) || set.StatusChanged() != test.changed {
			t.Errorf("%s: got ISR %v, changed %t; want %v, %t", test.name, isr,
				set.StatusChanged(), test.want, test.changed)
		}
	}
}
