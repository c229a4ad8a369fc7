package placement

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// up returns the state of a broker that is up, with broker epoch 1 and disk "d<id>". The functions
// in changes, such as uncleanRestart, modify the state.
func up(id int32, changes ...func(*BrokerState)) BrokerState {
	s := BrokerState{Liveness: Up, Epoch: 1, CleanEpoch: -1, Directory: disk(id)}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func disk(id int32) string { return "d" + string('0'+id) }

func uncleanRestart(s *BrokerState) { s.Epoch = 2 }
func cleanRestart(s *BrokerState)   { s.Epoch, s.CleanEpoch = 2, 1 }
func newDisk(s *BrokerState)        { s.Epoch, s.Directory = 2, "new" }
func leaving(s *BrokerState)        { s.Leaving = true }
func stale(s *BrokerState)          { s.AddressStaleFor = 10 * time.Second }
func staler(s *BrokerState)         { s.AddressStaleFor = 20 * time.Second }
func unknown(s *BrokerState)        { s.Liveness = Unknown }

// led returns a partition with leader epoch 5. Each digit in replicas and isr is a broker id. The
// first member of the ISR is the leader.
func led(replicas string, isr string) Partition {
	p := Partition{Leader: NoLeader, LeaderEpoch: 5}
	for _, r := range replicas {
		p.Replicas = append(p.Replicas, r-'0')
	}
	for _, r := range isr {
		p.ISR = append(p.ISR, InSyncReplica{Broker: r - '0', Epoch: 1, Directory: disk(r - '0')})
	}
	if len(p.ISR) > 0 {
		p.Leader, p.LeaderDirectory = p.ISR[0].Broker, p.ISR[0].Directory
	}
	return p
}

func offline(p Partition) Partition {
	p.Leader = NoLeader
	return p
}

func withTarget(p Partition, target ...int32) Partition {
	p.Target = target
	return p
}

func TestDecide(t *testing.T) {
	type brokers = map[int32]BrokerState
	for _, test := range []struct {
		name    string
		p       Partition
		brokers brokers
		options Options
		leader  int32
		epoch   int32
		isr     string
	}{
		{"new partition: all replicas that are up are in sync",
			Partition{Replicas: []int32{2, 0, 1}, Leader: NoLeader},
			brokers{0: up(0), 2: up(2)}, Options{}, 2, 1, "20"},
		{"new partition: waits for its first broker",
			Partition{Replicas: []int32{2}, Leader: NoLeader}, nil, Options{}, NoLeader, 0, ""},
		{"unchanged", led("012", "012"), brokers{0: up(0), 1: up(1), 2: up(2)}, Options{}, 0, 5,
			"012"},
		{"the leader is kept, preferred or not", led("012", "102"),
			brokers{0: up(0), 1: up(1), 2: up(2)}, Options{}, 1, 5, "102"},
		{"follower down", led("012", "012"), brokers{0: up(0), 2: up(2)}, Options{}, 0, 5, "02"},
		{"leader down", led("012", "012"), brokers{1: up(1), 2: up(2)}, Options{}, 1, 6, "12"},
		{"no leader outside the ISR", led("012", "0"), brokers{1: up(1), 2: up(2)}, Options{},
			NoLeader,
			6, "0"},
		{"still offline", offline(led("012", "0")), brokers{1: up(1)}, Options{}, NoLeader,
			5, "0"},
		{"all down: the ISR is kept", led("012", "012"), nil, Options{}, NoLeader, 6, "012"},
		{"leader returned after a graceful stop", led("012", "012"),
			brokers{0: up(0, cleanRestart), 1: up(1), 2: up(2)}, Options{}, 0, 6, "012"},
		{"follower returned after a graceful stop", led("012", "012"),
			brokers{0: up(0), 1: up(1, cleanRestart), 2: up(2)}, Options{}, 0, 5, "012"},
		{"leader returned after an unclean stop", led("012", "012"),
			brokers{0: up(0, uncleanRestart), 1: up(1), 2: up(2)}, Options{}, 1, 6, "12"},
		{"follower returned after an unclean stop", led("012", "012"),
			brokers{0: up(0), 1: up(1, uncleanRestart), 2: up(2)}, Options{}, 0, 5, "02"},
		{"last member returned after an unclean stop", led("012", "0"),
			brokers{0: up(0, uncleanRestart), 1: up(1), 2: up(2)}, Options{}, 0, 6, "0"},
		{"all stopped uncleanly, one returned: waits for the others", offline(led("012", "012")),
			brokers{1: up(1, uncleanRestart)}, Options{}, NoLeader, 5, "012"},
		{"all returned after an unclean stop: the last leader leads", offline(led("012", "102")),
			brokers{0: up(0, uncleanRestart), 1: up(1, uncleanRestart), 2: up(2, uncleanRestart)},
			Options{}, 1, 6,
			"1"},
		{"all returned, one after a graceful stop", offline(led("012", "102")),
			brokers{0: up(0, uncleanRestart), 1: up(1, uncleanRestart), 2: up(2, cleanRestart)},
			Options{}, 2, 6,
			"2"},
		{"all returned, the last leader with another disk", offline(led("012", "102")),
			brokers{0: up(0, uncleanRestart), 1: up(1, newDisk), 2: up(2, uncleanRestart)},
			Options{}, 0, 6,
			"0"},
		{"all disks replaced", offline(led("01", "01")),
			brokers{0: up(0, newDisk), 1: up(1, newDisk)}, Options{}, NoLeader, 5, "01"},
		{"disk of the last member replaced", led("012", "0"), brokers{0: up(0, newDisk), 1: up(1)},
			Options{},
			NoLeader, 6, "0"},
		{"replaced disk accepted", offline(led("012", "0")), brokers{0: up(0, newDisk), 1: up(1)},
			Options{AcceptedDataLoss: "new"}, 0, 6, "0"},
		{"consent to another disk", offline(led("012", "0")),
			brokers{0: up(0, newDisk), 1: up(1)}, Options{AcceptedDataLoss: "other"}, NoLeader, 5,
			"0"},
		{"consent to a replaced disk while a member is down", offline(led("01", "01")),
			brokers{0: up(0, newDisk)},
			Options{AcceptedDataLoss: "new"}, NoLeader, 5, "01"},
		{"consent to the records of one disk", offline(led("012", "0")),
			brokers{1: up(1), 2: up(2)},
			Options{AcceptedDataLoss: DataLossConsent("d2", 5)}, 2, 6, "2"},
		{"consent of an earlier leader epoch", offline(led("012", "0")),
			brokers{1: up(1), 2: up(2)},
			Options{AcceptedDataLoss: DataLossConsent("d2", 4)}, NoLeader, 5, "0"},
		{"consent while a member is up", led("012", "0"),
			brokers{0: up(0), 2: up(2)}, Options{AcceptedDataLoss: DataLossConsent("d2", 5)}, 0, 5,
			"0"},
		{"unclean election allowed", led("012", "0"), brokers{1: up(1), 2: up(2)},
			Options{AllowUnclean: true}, 1, 6, "1"},
		{"allowed, member up", led("012", "02"), brokers{1: up(1), 2: up(2)},
			Options{AllowUnclean: true}, 2, 6, "2"},
		{"allowed, member of unknown liveness", led("012", "02"),
			brokers{1: up(1), 2: up(2, unknown)},
			Options{AllowUnclean: true}, NoLeader, 6, "02"},
		{"allowed: member after an unclean stop before other replicas", led("012", "02"),
			brokers{1: up(1), 2: up(2, uncleanRestart)}, Options{AllowUnclean: true}, 2, 6, "2"},
		{"allowed: other replica before a replaced disk", led("012", "0"),
			brokers{0: up(0, newDisk), 2: up(2)},
			Options{AllowUnclean: true}, 2, 6, "2"},
		{"allowed: replaced disk as the only replica", led("012", "0"), brokers{0: up(0, newDisk)},
			Options{AllowUnclean: true}, 0, 6, "0"},
		{"leader of unknown liveness is kept", led("012", "012"),
			brokers{0: up(0, unknown), 1: up(1), 2: up(2)}, Options{}, 0, 5, "012"},
		{"member of unknown liveness is not elected", led("01", "01"), brokers{1: up(1, unknown)},
			Options{},
			NoLeader, 6, "01"},
		{"leader leaving", led("012", "012"), brokers{0: up(0, leaving), 1: up(1), 2: up(2)},
			Options{}, 1, 6, "12"},
		{"follower leaving", led("012", "012"), brokers{0: up(0), 1: up(1, leaving), 2: up(2)},
			Options{}, 0, 5, "02"},
		{"all leaving: no successor", led("012", "012"),
			brokers{0: up(0, leaving), 1: up(1, leaving), 2: up(2, leaving)}, Options{}, 0, 5,
			"012"},
		{"last member leaving", led("012", "0"), brokers{0: up(0, leaving), 1: up(1), 2: up(2)},
			Options{}, 0, 5, "0"},
		{"leaving member is not elected and not removed", led("01", "01"),
			brokers{1: up(1, leaving)}, Options{AllowUnclean: true}, NoLeader, 6, "01"},
		{"known address before a stale one", led("012", "012"),
			brokers{1: up(1, stale), 2: up(2)}, Options{}, 2, 6, "12"},
		{"less stale address first", led("012", "012"),
			brokers{1: up(1, staler), 2: up(2, stale)}, Options{}, 2, 6, "12"},
		{"stale address, only candidate", led("012", "01"),
			brokers{1: up(1, stale), 2: up(2)}, Options{}, 1, 6, "1"},
		{"leader with a stale address is kept", led("012", "012"),
			brokers{0: up(0, stale), 1: up(1), 2: up(2)}, Options{}, 0, 5, "012"},
		{"new partition: stale addresses do not matter",
			Partition{Replicas: []int32{0, 1}, Leader: NoLeader},
			brokers{0: up(0, stale), 1: up(1)}, Options{}, 0, 1, "01"},
		{"move to the preferred leader", led("012", "102"), brokers{0: up(0), 1: up(1), 2: up(2)},
			Options{PreferLeader: true}, 0, 6, "102"},
		{"preferred leader not in sync", led("012", "12"), brokers{0: up(0), 1: up(1), 2: up(2)},
			Options{PreferLeader: true}, 1, 5, "12"},
		{"no move to another replica", led("012", "21"), brokers{0: up(0), 1: up(1), 2: up(2)},
			Options{PreferLeader: true}, 2, 5, "21"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(test.p, test.brokers, test.options)
			if got := digits(d.ISR); d.Leader != test.leader || d.LeaderEpoch != test.epoch ||
				got != test.isr {
				t.Errorf("got leader %d, epoch %d, ISR %s; want %d, %d, %s", d.Leader, d.LeaderEpoch,
					got, test.leader, test.epoch, test.isr)
			}
		})
	}
}

func digits(members []InSyncReplica) string {
	var text strings.Builder
	for _, m := range members {
		text.WriteRune('0' + m.Broker)
	}
	return text.String()
}

func TestDecideReassigns(t *testing.T) {
	brokers := map[int32]BrokerState{0: up(0), 1: up(1), 2: up(2), 3: up(3)}
	reassigning := Decide(withTarget(led("01", "01"), 2, 3), brokers,
		Options{ReplicaIncarnation: "new"}).Partition
	want := led("0123", "01")
	want.Target = []int32{2, 3}
	want.ReplicaIncarnations = map[int32]string{2: "new", 3: "new"}
	if diff := cmp.Diff(want, reassigning); diff != "" {
		t.Errorf("replicas of both assignments (-want +got):\n%s", diff)
	}
	half, err := ChangeISR(reassigning,
		Proposal{LeaderEpoch: 5, From: []int32{0, 1},
			To: []InSyncReplica{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 1},
				{Broker: 2, Epoch: 1}}, ReplicaIncarnations: want.ReplicaIncarnations},
		brokers)
	if err != nil {
		t.Fatal(err)
	}
	if again := Decide(half, brokers, Options{}).Partition; !slices.Equal(again.Replicas,
		want.Replicas) || again.Leader != 0 {
		t.Errorf("one of two new replicas in sync: got %+v, want both assignments", again)
	}
	complete := half.clone()
	complete.ISR = append(complete.ISR, InSyncReplica{Broker: 3, Epoch: 1, Directory: "d3"})
	done := Decide(complete, brokers, Options{}).Partition
	if !slices.Equal(done.Replicas, []int32{2, 3}) || done.Target != nil {
		t.Errorf("all in sync: replicas %v, target %v, want 2 and 3", done.Replicas, done.Target)
	}
	if done.Leader != 2 || done.LeaderEpoch != 6 {
		t.Errorf("all in sync: leader %d in epoch %d, want 2 in 6", done.Leader, done.LeaderEpoch)
	}
	if isr := digits(done.ISR); isr != "23" {
		t.Errorf("all in sync: ISR %s, want 23", isr)
	}
	cancelled := reassigning.clone()
	cancelled.Target = []int32{0, 1}
	if got := Decide(cancelled, brokers, Options{}).Partition; !slices.Equal(got.Replicas,
		[]int32{0, 1}) || got.Target != nil || got.LeaderEpoch != 5 {
		t.Errorf("cancelled reassignment: got %+v, want replicas 0 and 1", got)
	}
}

// TestMemberThatIsNotAReplica checks that the leader, broker 0, continues to lead until the new
// replica has its records, although a user has overwritten the partition's replicas.
func TestMemberThatIsNotAReplica(t *testing.T) {
	p := led("0", "0")
	p.Replicas = []int32{1}
	got := Decide(p, map[int32]BrokerState{0: up(0), 1: up(1)}, Options{}).Partition
	if got.Leader != 0 || !slices.Equal(got.Replicas, []int32{1, 0}) ||
		!slices.Equal(got.Target, []int32{1}) {
		t.Errorf("got %+v, want leader 0, replicas 1 and 0, target 1", got)
	}
}

func TestLogAheadOfTheMetadata(t *testing.T) {
	p := led("01", "01")
	p.FoundEpoch = new(int32(40))
	brokers := map[int32]BrokerState{0: up(0), 1: up(1)}
	got := Decide(p, brokers, Options{}).Partition
	if got.Leader != 0 || got.LeaderEpoch != 41 || got.FoundEpoch != nil {
		t.Errorf("got %+v, want leader 0 with leader epoch 41", got)
	}
	p.FoundEpoch = new(int32(4))
	if got = Decide(p, brokers, Options{}).Partition; got.LeaderEpoch != 5 {
		t.Errorf("earlier FoundEpoch: got leader epoch %d, want 5", got.LeaderEpoch)
	}
}

func TestOfflinePartitionNamesAwaitedAndLostReplicas(t *testing.T) {
	d := Decide(led("012", "012"),
		map[int32]BrokerState{1: up(1, newDisk), 2: up(2, uncleanRestart)},
		Options{})
	if !slices.Equal(d.Awaited, []int32{0}) || !slices.Equal(d.Lost, []int32{1}) || d.Unclean {
		t.Errorf("got awaited %v, lost %v, unclean %t; want [0], [1], false", d.Awaited, d.Lost,
			d.Unclean)
	}
	if d = Decide(led("0", "0"), map[int32]BrokerState{0: up(0, uncleanRestart)},
		Options{}); !d.Unclean {
		t.Error("election of the only member after an unclean stop: got clean, want unclean")
	}
}

func TestRetire(t *testing.T) {
	p := Retire(led("01", "01"))
	if p.Leader != NoLeader || p.LeaderEpoch != 6 || digits(p.ISR) != "01" {
		t.Errorf("got %+v, want no leader, leader epoch 6 and the same ISR", p)
	}
	if p = Retire(p); p.LeaderEpoch != 6 {
		t.Errorf("retired twice: got leader epoch %d, want 6", p.LeaderEpoch)
	}
}

func TestChangeISRRejectsInvalidProposals(t *testing.T) {
	brokers := map[int32]BrokerState{0: up(0), 1: up(1), 2: up(2, leaving), 3: up(3)}
	p := led("0123", "01")
	member := func(ids ...int32) (members []InSyncReplica) {
		for _, id := range ids {
			members = append(members, InSyncReplica{Broker: id, Epoch: 1})
		}
		return members
	}
	for name, proposal := range map[string]Proposal{
		"another leader epoch": {LeaderEpoch: 4, From: []int32{0, 1}, To: member(0)},
		"another ISR":          {LeaderEpoch: 5, From: []int32{0}, To: member(0, 1)},
		"leader removed":       {LeaderEpoch: 5, From: []int32{0, 1}, To: member(1)},
		"leaving broker added": {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1, 2)},
		"not a replica":        {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1, 4)},
		"another incarnation id": {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1),
			ReplicaIncarnations: map[int32]string{1: "before"}},
		"named twice": {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1, 1)},
		"earlier broker epoch": {LeaderEpoch: 5, From: []int32{0, 1},
			To: []InSyncReplica{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 0}}},
	} {
		if got, err := ChangeISR(p, proposal, brokers); err == nil || !cmp.Equal(got, p) {
			t.Errorf("%s: got error %v and %+v, want a rejection", name, err, got)
		}
	}
	p.ReplicaIncarnations = map[int32]string{3: "a3", 1: "a1"}
	for _, known := range []map[int32]string{nil, {3: "before"}, {0: "a0", 3: "a3"}} {
		if got, err := ChangeISR(p,
			Proposal{LeaderEpoch: 5, From: []int32{0, 1}, To: member(3, 0),
				ReplicaIncarnations: known},
			brokers); err == nil {
			t.Errorf("incarnation ids %v: got %+v, want a rejection", known, got)
		}
	}
	got, err := ChangeISR(p, Proposal{LeaderEpoch: 5, From: []int32{1, 0}, To: member(3, 0),
		ReplicaIncarnations: map[int32]string{3: "a3"}}, brokers)
	if err != nil || digits(got.ISR) != "30" || got.ISR[0].Directory != "d3" ||
		got.LeaderEpoch != 5 {
		t.Errorf("got %+v, error %v; want ISR 3, 0", got, err)
	}
}

func TestMemberIsFencedAfterAnUncleanRestart(t *testing.T) {
	m := InSyncReplica{Broker: 1, Epoch: 4, Directory: "d1"}
	for name, c := range map[string]struct {
		member InSyncReplica
		now    BrokerState
		want   bool
	}{
		"same epoch": {m,
			BrokerState{Epoch: 4, CleanEpoch: -1, Directory: "d1"}, false},
		"later epoch": {m,
			BrokerState{Epoch: 5, CleanEpoch: -1, Directory: "d1"}, true},
		"graceful stop": {m,
			BrokerState{Epoch: 5, CleanEpoch: 4, Directory: "d1"}, false},
		"graceful stop of a later epoch": {m,
			BrokerState{Epoch: 6, CleanEpoch: 5, Directory: "d1"}, true},
		"later epoch, down": {m,
			BrokerState{Liveness: Down, Epoch: 5, CleanEpoch: -1, Directory: "d1"}, true},
		"earlier epoch": {m,
			BrokerState{Epoch: 3, CleanEpoch: -1, Directory: "d1"}, false},
		"another disk": {m,
			BrokerState{Epoch: 5, CleanEpoch: -1, Directory: "d2"}, false},
		"unknown disk": {InSyncReplica{Broker: 1, Epoch: 4},
			BrokerState{Epoch: 5, CleanEpoch: -1}, false},
		"never observed": {m, BrokerState{}, false},
	} {
		if got := c.member.Fenced(c.now); got != c.want {
			t.Errorf("%s: got fenced %t, want %t", name, got, c.want)
		}
	}
}

// TestChangeISRMayOmitFencedMembers checks that a leader's proposal can be based on the ISR with or
// without fenced members, here broker 1, but must include all other members. UnfencedISR includes
// the leader even if it is fenced.
func TestChangeISRMayOmitFencedMembers(t *testing.T) {
	crashed := BrokerState{Liveness: Up, Epoch: 2, CleanEpoch: -1, Directory: "d1"}
	brokers := map[int32]BrokerState{0: up(0), 1: crashed, 2: up(2)}
	p := led("012", "012")
	propose := func(from []int32, to ...InSyncReplica) error {
		_, err := ChangeISR(p, Proposal{LeaderEpoch: 5, From: from, To: to}, brokers)
		return err
	}
	zero, one, two := InSyncReplica{Broker: 0, Epoch: 1}, InSyncReplica{Broker: 1, Epoch: 2},
		InSyncReplica{Broker: 2, Epoch: 1}
	if err := propose([]int32{0, 2}, zero, one, two); err != nil {
		t.Error(err)
	}
	if err := propose([]int32{0, 1, 2}, zero, two); err != nil {
		t.Error(err)
	}
	if err := propose([]int32{0}, zero); err == nil {
		t.Error("proposal without a member that is not fenced: got no error")
	}
	brokers[1], brokers[0] = up(1),
		BrokerState{Liveness: Up, Epoch: 2, CleanEpoch: -1, Directory: "d0"}
	if unfenced := p.UnfencedISR(brokers); len(unfenced) != 3 {
		t.Errorf("got unfenced ISR %v, want three members", unfenced)
	}
}

// TestDecideGivesNewReplicasAnIncarnationID checks that a replica added by a decision gets the
// incarnation id in the decision's Options, and that a remaining replica keeps its id.
func TestDecideGivesNewReplicasAnIncarnationID(t *testing.T) {
	brokers := map[int32]BrokerState{0: up(0), 1: up(1), 2: up(2), 3: up(3)}
	decide := func(p Partition, target, id string) Partition {
		t.Helper()
		p.Target = nil
		for _, digit := range target {
			p.Target = append(p.Target, digit-'0')
		}
		decided := Decide(p, brokers, Options{ReplicaIncarnation: id}).Partition
		if again := Decide(decided, brokers,
			Options{ReplicaIncarnation: "again"}).Partition; !cmp.Equal(again, decided) {
			t.Errorf("second decision: got %+v, want %+v", again, decided)
		}
		return decided
	}
	want := func(p Partition, ids map[int32]string) {
		t.Helper()
		if !cmp.Equal(p.ReplicaIncarnations, ids) {
			t.Errorf("got incarnation ids %v, want %v", p.ReplicaIncarnations, ids)
		}
	}
	p := decide(Partition{Replicas: []int32{0, 1, 2}, Leader: NoLeader}, "", "new")
	want(p, map[int32]string{0: "new", 1: "new", 2: "new"})

	p = decide(p, "013", "reassign") // broker 2 remains a replica until broker 3 is in sync
	want(p, map[int32]string{0: "new", 1: "new", 2: "new", 3: "reassign"})
	p = decide(p, "012", "cancel") // all brokers of the target are in sync, so broker 3 is removed
	want(p, map[int32]string{0: "new", 1: "new", 2: "new"})
	p = decide(p, "01", "fewer")
	want(p, map[int32]string{0: "new", 1: "new"})
	before := p.clone()
	added := decide(p, "012", "more")
	want(added, map[int32]string{0: "new", 1: "new", 2: "more"})
	want(p, before.ReplicaIncarnations) // Decide must not change its argument
	want(decide(decide(added, "01", "fewer"), "012", "once more"),
		map[int32]string{0: "new", 1: "new", 2: "once more"})

	old := led("01", "01") // as stored by a version without incarnation ids
	want(decide(old, "", "unused"), nil)
	want(decide(old, "012", "added"), map[int32]string{2: "added"})
}

func TestConsentedID(t *testing.T) {
	consent := DataLossConsent("claim", 7)
	for epoch, want := range map[int32]string{7: "claim", 6: "", 8: "", 77: ""} {
		if got := ConsentedID(consent, epoch); got != want {
			t.Errorf("leader epoch %d: got %q, want %q", epoch, got, want)
		}
	}
	for _, text := range []string{"", "claim", "@", "claim@", "claim@07"} {
		if got := ConsentedID(text, 7); got != "" {
			t.Errorf("consent %q: got %q", text, got)
		}
	}
}

// TestLoseLog checks that a report of a lost log removes the replica from the ISR, unless the
// report is outdated. If the replica is the last ISR member, it can be elected only with a user's
// consent for this leader epoch.
func TestLoseLog(t *testing.T) {
	member := func(id int32) InSyncReplica {
		return InSyncReplica{Broker: id, Epoch: 4, Directory: "d"}
	}
	before := Partition{Replicas: []int32{0, 1}, Leader: 0, LeaderEpoch: 7, LeaderDirectory: "d",
		ISR:                 []InSyncReplica{member(0), member(1)},
		ReplicaIncarnations: map[int32]string{0: "x", 1: "z"}}
	brokers := map[int32]BrokerState{0: {Liveness: Up, Epoch: 5, CleanEpoch: 4, Directory: "d"}}
	for name, p := range map[string]Partition{
		"outdated":      LoseLog(before, 0, "w", "y"),
		"not a replica": LoseLog(before, 2, "", "y"),
		"new": LoseLog(Partition{Replicas: []int32{0}, Leader: NoLeader}, 0, "",
			"y"),
	} {
		if p.ReplicaIncarnations[0] == "y" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	after := LoseLog(before, 0, "x", "y")
	if after.Leader != NoLeader || after.LeaderEpoch != 8 {
		t.Errorf("the leader lost its log: %+v, want no leader in epoch 8", after)
	}
	if got := ids(after.ISR); !slices.Equal(got, []int32{1}) {
		t.Errorf("the leader lost its log: ISR %v, want 1", got)
	}
	was, is := before.ReplicaIncarnations[0], after.ReplicaIncarnations[0]
	if was != "x" || is != "y" {
		t.Errorf("the leader lost its log: incarnation %q, want y; the input has %q, want x", is, was)
	}
	after = LoseLog(before, 1, "z", "y")
	if after.Leader != 0 || after.LeaderEpoch != 7 || !slices.Equal(ids(after.ISR), []int32{0}) {
		t.Errorf("a follower lost its log: %+v", after)
	}
	before.ISR = before.ISR[:1]
	after = LoseLog(before, 0, "x", "y")
	for name, consent := range map[string]string{"no consent": "", "no leader epoch": "d",
		"another leader epoch": DataLossConsent("d", 7)} {
		if d := Decide(after, brokers, Options{AcceptedDataLoss: consent}); d.Leader != NoLeader ||
			!slices.Equal(d.Lost, []int32{0}) || len(d.Awaited) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	d := Decide(after, brokers, Options{AcceptedDataLoss: DataLossConsent("d", 8)})
	if d.Leader != 0 || !d.Unclean || d.ISR[0].LostLog() || d.UnprovenEpoch != d.LeaderEpoch {
		t.Errorf("with a consent: %+v", d)
	}
}
