package placement

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// up is a broker that lives in incarnation 1, on disk "d<id>"; the functions that follow change it.
func up(id int32, changes ...func(*BrokerState)) BrokerState {
	s := BrokerState{Liveness: Up, Epoch: 1, CleanEpoch: -1, Directory: disk(id)}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func disk(id int32) string { return "d" + string('0'+id) }

func restarted(s *BrokerState) { s.Epoch = 2 }
func cleanly(s *BrokerState)   { s.Epoch, s.CleanEpoch = 2, 1 }
func newDisk(s *BrokerState)   { s.Epoch, s.Directory = 2, "new" }
func leaving(s *BrokerState)   { s.Leaving = true }
func unsettled(s *BrokerState) { s.AddressStaleFor = 10 * time.Second }
func justBack(s *BrokerState)  { s.AddressStaleFor = 20 * time.Second }
func inDoubt(s *BrokerState)   { s.Liveness = Unknown }

// led is a partition whose replicas are all in sync, but for those left out of isr; the first of
// isr leads in epoch 5.
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

func towards(p Partition, target ...int32) Partition {
	p.Target = target
	return p
}

func TestDecide(t *testing.T) {
	type brokers = map[int32]BrokerState
	for _, test := range []struct {
		name    string
		p       Partition
		brokers brokers
		wishes  Options
		leader  int32
		epoch   int32
		isr     string
	}{
		{"a new partition: all that live are in sync",
			Partition{Replicas: []int32{2, 0, 1}, Leader: NoLeader},
			brokers{0: up(0), 2: up(2)}, Options{}, 2, 1, "20"},
		{"a new partition waits for its first broker",
			Partition{Replicas: []int32{2}, Leader: NoLeader}, nil, Options{}, NoLeader, 0, ""},
		{"all is well", led("012", "012"), brokers{0: up(0), 1: up(1), 2: up(2)}, Options{}, 0, 5,
			"012"},
		{"the leader stays, preferred or not", led("012", "102"),
			brokers{0: up(0), 1: up(1), 2: up(2)}, Options{}, 1, 5, "102"},
		{"a follower dies", led("012", "012"), brokers{0: up(0), 2: up(2)}, Options{}, 0, 5, "02"},
		{"the leader dies", led("012", "012"), brokers{1: up(1), 2: up(2)}, Options{}, 1, 6, "12"},
		{"never one out of sync", led("012", "0"), brokers{1: up(1), 2: up(2)}, Options{}, NoLeader,
			6, "0"},
		{"offline stays offline", offline(led("012", "0")), brokers{1: up(1)}, Options{}, NoLeader,
			5, "0"},
		{"all die: the ISR is remembered", led("012", "012"), nil, Options{}, NoLeader, 6, "012"},
		{"the leader came back in order", led("012", "012"),
			brokers{0: up(0, cleanly), 1: up(1), 2: up(2)}, Options{}, 0, 6, "012"},
		{"a follower came back in order", led("012", "012"),
			brokers{0: up(0), 1: up(1, cleanly), 2: up(2)}, Options{}, 0, 5, "012"},
		{"the leader was killed and is back at once", led("012", "012"),
			brokers{0: up(0, restarted), 1: up(1), 2: up(2)}, Options{}, 1, 6, "12"},
		{"a follower was killed and is back at once", led("012", "012"),
			brokers{0: up(0), 1: up(1, restarted), 2: up(2)}, Options{}, 0, 5, "02"},
		{"the last member was killed and is back", led("012", "0"),
			brokers{0: up(0, restarted), 1: up(1), 2: up(2)}, Options{}, 0, 6, "0"},
		{"all were killed, one is back: the others are waited for", offline(led("012", "012")),
			brokers{1: up(1, restarted)}, Options{}, NoLeader, 5, "012"},
		{"all were killed and are back: who led goes on", offline(led("012", "102")),
			brokers{0: up(0, restarted), 1: up(1, restarted), 2: up(2, restarted)}, Options{}, 1, 6,
			"1"},
		{"one of those stopped in order", offline(led("012", "102")),
			brokers{0: up(0, restarted), 1: up(1, restarted), 2: up(2, cleanly)}, Options{}, 2, 6,
			"2"},
		{"one of those has lost its disk", offline(led("012", "102")),
			brokers{0: up(0, restarted), 1: up(1, newDisk), 2: up(2, restarted)}, Options{}, 0, 6,
			"0"},
		{"all disks are lost", offline(led("01", "01")),
			brokers{0: up(0, newDisk), 1: up(1, newDisk)}, Options{}, NoLeader, 5, "01"},
		{"the last disk is lost", led("012", "0"), brokers{0: up(0, newDisk), 1: up(1)}, Options{},
			NoLeader, 6, "0"},
		{"that is accepted", offline(led("012", "0")), brokers{0: up(0, newDisk), 1: up(1)},
			Options{AcceptedDataLoss: "new"}, 0, 6, "0"},
		{"a consent for another disk", offline(led("012", "0")),
			brokers{0: up(0, newDisk), 1: up(1)}, Options{AcceptedDataLoss: "other"}, NoLeader, 5,
			"0"},
		{"a consent to an empty disk is none while a member is only away", offline(led("01", "01")),
			brokers{0: up(0, newDisk)},
			Options{AcceptedDataLoss: "new"}, NoLeader, 5, "01"},
		{"a consent to what one disk holds", offline(led("012", "0")), brokers{1: up(1), 2: up(2)},
			Options{AcceptedDataLoss: DataLossConsent("d2", 5)}, 2, 6, "2"},
		{"that consent is used up", offline(led("012", "0")), brokers{1: up(1), 2: up(2)},
			Options{AcceptedDataLoss: DataLossConsent("d2", 4)}, NoLeader, 5, "0"},
		{"a consent changes nothing while a member lives", led("012", "0"),
			brokers{0: up(0), 2: up(2)}, Options{AcceptedDataLoss: DataLossConsent("d2", 5)}, 0, 5,
			"0"},
		{"a topic that would rather lose records", led("012", "0"), brokers{1: up(1), 2: up(2)},
			Options{AllowUnclean: true}, 1, 6, "1"},
		{"not while a member lives", led("012", "02"), brokers{1: up(1), 2: up(2)},
			Options{AllowUnclean: true}, 2, 6, "2"},
		{"not while a member may live", led("012", "02"), brokers{1: up(1), 2: up(2, inDoubt)},
			Options{AllowUnclean: true}, NoLeader, 6, "02"},
		{"who was in sync until it crashed before who lags", led("012", "02"),
			brokers{1: up(1), 2: up(2, restarted)}, Options{AllowUnclean: true}, 2, 6, "2"},
		{"an old log before an empty disk", led("012", "0"), brokers{0: up(0, newDisk), 2: up(2)},
			Options{AllowUnclean: true}, 2, 6, "2"},
		{"an empty disk before nothing", led("012", "0"), brokers{0: up(0, newDisk)},
			Options{AllowUnclean: true}, 0, 6, "0"},
		{"a leader in doubt goes on", led("012", "012"),
			brokers{0: up(0, inDoubt), 1: up(1), 2: up(2)}, Options{}, 0, 5, "012"},
		{"one in doubt is given nothing", led("01", "01"), brokers{1: up(1, inDoubt)}, Options{},
			NoLeader, 6, "01"},
		{"the leader leaves", led("012", "012"), brokers{0: up(0, leaving), 1: up(1), 2: up(2)},
			Options{}, 1, 6, "12"},
		{"a follower leaves", led("012", "012"), brokers{0: up(0), 1: up(1, leaving), 2: up(2)},
			Options{}, 0, 5, "02"},
		{"all leave: nobody to hand over to", led("012", "012"),
			brokers{0: up(0, leaving), 1: up(1, leaving), 2: up(2, leaving)}, Options{}, 0, 5,
			"012"},
		{"the last member leaves", led("012", "0"), brokers{0: up(0, leaving), 1: up(1), 2: up(2)},
			Options{}, 0, 5, "0"},
		{"one that leaves is not elected, and not forgotten", led("01", "01"),
			brokers{1: up(1, leaving)}, Options{AllowUnclean: true}, NoLeader, 6, "01"},
		{"one that clients find goes before one that came back a moment ago", led("012", "012"),
			brokers{1: up(1, unsettled), 2: up(2)}, Options{}, 2, 6, "12"},
		{"of those that did the one that is back for longer", led("012", "012"),
			brokers{1: up(1, justBack), 2: up(2, unsettled)}, Options{}, 2, 6, "12"},
		{"one that came back a moment ago before nobody", led("012", "01"),
			brokers{1: up(1, unsettled), 2: up(2)}, Options{}, 1, 6, "1"},
		{"a leader stays, unsettled or not", led("012", "012"),
			brokers{0: up(0, unsettled), 1: up(1), 2: up(2)}, Options{}, 0, 5, "012"},
		{"nobody looks yet for the leader of a new partition",
			Partition{Replicas: []int32{0, 1}, Leader: NoLeader},
			brokers{0: up(0, unsettled), 1: up(1)}, Options{}, 0, 1, "01"},
		{"leadership goes home", led("012", "102"), brokers{0: up(0), 1: up(1), 2: up(2)},
			Options{PreferLeader: true}, 0, 6, "102"},
		{"not to one out of sync", led("012", "12"), brokers{0: up(0), 1: up(1), 2: up(2)},
			Options{PreferLeader: true}, 1, 5, "12"},
		{"not to the second best", led("012", "21"), brokers{0: up(0), 1: up(1), 2: up(2)},
			Options{PreferLeader: true}, 2, 5, "21"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(test.p, test.brokers, test.wishes)
			if got := digits(d.ISR); d.Leader != test.leader || d.LeaderEpoch != test.epoch ||
				got != test.isr {
				t.Errorf("leader %d, epoch %d, ISR %s; want %d, %d, %s", d.Leader, d.LeaderEpoch,
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
	moving := Decide(towards(led("01", "01"), 2, 3), brokers, Options{}).Partition
	want := led("0123", "01")
	want.Target = []int32{2, 3}
	if diff := cmp.Diff(want, moving); diff != "" {
		t.Errorf("both old and new hold logs (-want +got):\n%s", diff)
	}
	half, err := ChangeISR(moving,
		Proposal{LeaderEpoch: 5, From: []int32{0, 1},
			To: []InSyncReplica{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 1},
				{Broker: 2, Epoch: 1}}},
		brokers)
	if err != nil {
		t.Fatal(err)
	}
	if again := Decide(half, brokers, Options{}).Partition; !slices.Equal(again.Replicas,
		want.Replicas) || again.Leader != 0 {
		t.Errorf("one of the new ones is in sync: %+v", again)
	}
	whole := half.clone()
	whole.ISR = append(whole.ISR, InSyncReplica{Broker: 3, Epoch: 1, Directory: "d3"})
	done := Decide(whole, brokers, Options{}).Partition
	if !slices.Equal(done.Replicas, []int32{2, 3}) || done.Target != nil || done.Leader != 2 ||
		done.LeaderEpoch != 6 || digits(done.ISR) != "23" {
		t.Errorf("all new ones are in sync: %+v", done)
	}
	back := moving.clone()
	back.Target = []int32{0, 1}
	if got := Decide(back, brokers, Options{}).Partition; !slices.Equal(got.Replicas,
		[]int32{0, 1}) || got.Target != nil || got.LeaderEpoch != 5 {
		t.Errorf("called off: %+v", got)
	}
}

// TestAMemberThatIsNoReplica is what somebody sees who wrote other replicas over the old ones.
func TestAMemberThatIsNoReplica(t *testing.T) {
	p := led("0", "0")
	p.Replicas = []int32{1}
	got := Decide(p, map[int32]BrokerState{0: up(0), 1: up(1)}, Options{}).Partition
	if got.Leader != 0 || !slices.Equal(got.Replicas, []int32{1, 0}) ||
		!slices.Equal(got.Target, []int32{1}) {
		t.Errorf("%+v; want broker 0 to lead until 1 has its records", got)
	}
}

func TestALogThatIsAhead(t *testing.T) {
	p := led("01", "01")
	p.FoundEpoch = new(int32(40))
	brokers := map[int32]BrokerState{0: up(0), 1: up(1)}
	got := Decide(p, brokers, Options{}).Partition
	if got.Leader != 0 || got.LeaderEpoch != 41 || got.FoundEpoch != nil {
		t.Errorf("%+v; want leader 0 in epoch 41", got)
	}
	p.FoundEpoch = new(int32(4))
	if got = Decide(p, brokers, Options{}).Partition; got.LeaderEpoch != 5 {
		t.Errorf("epoch %d for an old finding, want 5", got.LeaderEpoch)
	}
}

func TestWhatAnOfflinePartitionWaitsFor(t *testing.T) {
	d := Decide(led("012", "012"), map[int32]BrokerState{1: up(1, newDisk), 2: up(2, restarted)},
		Options{})
	if !slices.Equal(d.Awaited, []int32{0}) || !slices.Equal(d.Lost, []int32{1}) || d.Unclean {
		t.Errorf("awaited %v, lost %v, unproven %t; want [0], [1], false", d.Awaited, d.Lost,
			d.Unclean)
	}
	if d = Decide(led("0", "0"), map[int32]BrokerState{0: up(0, restarted)},
		Options{}); !d.Unclean {
		t.Error("a broker came back from an unclean stop, and is taken for proven")
	}
}

func TestRetire(t *testing.T) {
	p := Retire(led("01", "01"))
	if p.Leader != NoLeader || p.LeaderEpoch != 6 || digits(p.ISR) != "01" {
		t.Errorf("%+v", p)
	}
	if p = Retire(p); p.LeaderEpoch != 6 {
		t.Errorf("retired twice: epoch %d, want 6", p.LeaderEpoch)
	}
}

func TestChangeISRRefuses(t *testing.T) {
	brokers := map[int32]BrokerState{0: up(0), 1: up(1), 2: up(2, leaving), 3: up(3)}
	p := led("0123", "01")
	member := func(ids ...int32) (members []InSyncReplica) {
		for _, id := range ids {
			members = append(members, InSyncReplica{Broker: id, Epoch: 1})
		}
		return members
	}
	for name, proposal := range map[string]Proposal{
		"of another epoch":           {LeaderEpoch: 4, From: []int32{0, 1}, To: member(0)},
		"about another ISR":          {LeaderEpoch: 5, From: []int32{0}, To: member(0, 1)},
		"without the leader":         {LeaderEpoch: 5, From: []int32{0, 1}, To: member(1)},
		"with one that leaves":       {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1, 2)},
		"with one that is not there": {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1, 4)},
		"with one of another time": {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1),
			ReplicaIncarnations: map[int32]string{1: "before"}},
		"with one twice": {LeaderEpoch: 5, From: []int32{0, 1}, To: member(0, 1, 1)},
		"with an incarnation of before": {LeaderEpoch: 5, From: []int32{0, 1},
			To: []InSyncReplica{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 0}}},
	} {
		if got, err := ChangeISR(p, proposal, brokers); err == nil || !cmp.Equal(got, p) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	p.ReplicaIncarnations = map[int32]string{3: "a3", 1: "a1"}
	for _, known := range []map[int32]string{nil, {3: "before"}, {0: "a0", 3: "a3"}} {
		if got, err := ChangeISR(p,
			Proposal{LeaderEpoch: 5, From: []int32{0, 1}, To: member(3, 0),
				ReplicaIncarnations: known},
			brokers); err == nil {
			t.Errorf("known by the assignments %v: %+v", known, got)
		}
	}
	got, err := ChangeISR(p, Proposal{LeaderEpoch: 5, From: []int32{1, 0}, To: member(3, 0),
		ReplicaIncarnations: map[int32]string{3: "a3"}}, brokers)
	if err != nil || digits(got.ISR) != "30" || got.ISR[0].Directory != "d3" ||
		got.LeaderEpoch != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAMemberHasEndedOnceItsBrokerIsBackUncleanly(t *testing.T) {
	m := InSyncReplica{Broker: 1, Epoch: 4, Directory: "d1"}
	for name, c := range map[string]struct {
		member InSyncReplica
		now    BrokerState
		want   bool
	}{
		"the same incarnation": {m,
			BrokerState{Epoch: 4, CleanEpoch: -1, Directory: "d1"}, false},
		"a later one": {m,
			BrokerState{Epoch: 5, CleanEpoch: -1, Directory: "d1"}, true},
		"after an orderly stop": {m,
			BrokerState{Epoch: 5, CleanEpoch: 4, Directory: "d1"}, false},
		"after one of another incarnation": {m,
			BrokerState{Epoch: 6, CleanEpoch: 5, Directory: "d1"}, true},
		"and that it went again is the same": {m,
			BrokerState{Liveness: Down, Epoch: 5, CleanEpoch: -1, Directory: "d1"}, true},
		"an image of before": {m,
			BrokerState{Epoch: 3, CleanEpoch: -1, Directory: "d1"}, false},
		"on another disk": {m,
			BrokerState{Epoch: 5, CleanEpoch: -1, Directory: "d2"}, false},
		"on a disk that nobody names": {InSyncReplica{Broker: 1, Epoch: 4},
			BrokerState{Epoch: 5, CleanEpoch: -1}, false},
		"nobody has seen it": {m, BrokerState{}, false},
	} {
		if got := c.member.Fenced(c.now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A leader may count those that have ended, or leave them out; others it may not, and itself never.
func TestChangeISROverWhoHasEnded(t *testing.T) {
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
		t.Error("a member that lives was left out")
	}
	brokers[1], brokers[0] = up(1),
		BrokerState{Liveness: Up, Epoch: 2, CleanEpoch: -1, Directory: "d0"}
	if lasting := p.UnfencedISR(brokers); len(lasting) != 3 {
		t.Errorf("of a leader that is back %v are left", lasting)
	}
}

// Whoever becomes a replica does so by the assignment of that decision; who stays one keeps its
// own.
func TestDecideAssignsAnewWhoBecomesAReplica(t *testing.T) {
	brokers := map[int32]BrokerState{0: up(0), 1: up(1), 2: up(2), 3: up(3)}
	decide := func(p Partition, target, assignment string) Partition {
		t.Helper()
		p.Target = nil
		for _, digit := range target {
			p.Target = append(p.Target, digit-'0')
		}
		decided := Decide(p, brokers, Options{ReplicaIncarnation: assignment}).Partition
		if again := Decide(decided, brokers,
			Options{ReplicaIncarnation: "again"}).Partition; !cmp.Equal(again, decided) {
			t.Errorf("asked again: %+v, before %+v", again, decided)
		}
		return decided
	}
	want := func(p Partition, assignments map[int32]string) {
		t.Helper()
		if !cmp.Equal(p.ReplicaIncarnations, assignments) {
			t.Errorf("assignments %v, want %v", p.ReplicaIncarnations, assignments)
		}
	}
	p := decide(Partition{Replicas: []int32{0, 1, 2}, Leader: NoLeader}, "", "new")
	want(p, map[int32]string{0: "new", 1: "new", 2: "new"})

	p = decide(p, "013", "moves") // 3 joins; 2 is still one
	want(p, map[int32]string{0: "new", 1: "new", 2: "new", 3: "moves"})
	p = decide(p, "012", "back") // all of the target are in sync
	want(p, map[int32]string{0: "new", 1: "new", 2: "new"})
	p = decide(p, "01", "fewer")
	want(p, map[int32]string{0: "new", 1: "new"})
	before := p.clone()
	moved := decide(p, "012", "more")
	want(moved, map[int32]string{0: "new", 1: "new", 2: "more"})
	want(p, before.ReplicaIncarnations) // what was given is not written into
	want(decide(decide(moved, "01", "fewer"), "012", "once more"),
		map[int32]string{0: "new", 1: "new", 2: "once more"})

	old := led("01", "01") // from before there were names
	want(decide(old, "", "unused"), nil)
	want(decide(old, "012", "added"), map[int32]string{2: "added"})
}
