package partitionset

import (
	"errors"
	"reflect"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

var orders = Key{Topic: "orders"}

// led returns a set with one partition, which broker 0 leads in leader epoch 5. Brokers 0 and 1 are
// in sync, and broker 2 is not.
func led() *Set {
	s := &Set{assignments: map[Key]*text[Assignment]{}, states: map[Key]*text[State]{}}
	s.Assign(orders, Assignment{Replicas: []int32{1, 0, 2}, Tag: "abcdefgh"})
	s.PutState(orders, State{Partition: placement.Partition{Leader: 0, LeaderEpoch: 5,
		Replicas: []int32{1, 0, 2}, ISR: []placement.InSyncReplica{{Broker: 1, Epoch: 3,
			Directory: "b"}, {Broker: 0, Epoch: 7, Directory: "a"}}, LeaderDirectory: "a",
		ReplicaIncarnations: map[int32]string{0: "i", 1: "i", 2: "i"}}})
	s.statusChanged = false
	return s
}

func up(epochs ...int64) map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	for id, epoch := range epochs {
		all[int32(id)] = placement.BrokerState{Liveness: placement.Up, Epoch: epoch, CleanEpoch: -1,
			Directory: string(rune('a' + id))}
	}
	return all
}

func (s *Set) raw() string { return s.states[orders].raw }

func TestLeaderChangesISR(t *testing.T) {
	grow := metadata.ISRChange{LeaderEpoch: 5, From: []int32{0, 1},
		To: []metadata.InSync{{Broker: 0, Epoch: 7, ReplicaIncarnation: "i"},
			{Broker: 1, Epoch: 3, ReplicaIncarnation: "i"},
			{Broker: 2, Epoch: 9, ReplicaIncarnation: "i"}}}
	shrink := metadata.ISRChange{LeaderEpoch: 5, From: []int32{1, 0},
		To: []metadata.InSync{{Broker: 0, Epoch: 7, ReplicaIncarnation: "i"}}}
	late := grow
	late.LeaderEpoch = 4
	same := metadata.ISRChange{LeaderEpoch: 5, From: []int32{0, 1}, To: grow.To[:2]}
	again := same
	again.From = []int32{0} // as if the change was made, and its response was lost
	restarted := metadata.ISRChange{LeaderEpoch: 5, From: []int32{0, 1},
		To: []metadata.InSync{{Broker: 0, Epoch: 8, ReplicaIncarnation: "i"},
			{Broker: 1, Epoch: 3, ReplicaIncarnation: "i"}}}
	for _, c := range []struct {
		name   string
		change metadata.ISRChange
		up     map[int32]placement.BrokerState
		want   string // expected ISR; "" if the change is refused
	}{
		{"grows, which shows that the leader serves", grow, up(7, 3, 9), "0@5 1:3,0:7,2:9 i 2"},
		{"shrinks", shrink, up(7, 3, 9), "0@5? 1,0:7,2 i 2"},
		{"proposes the present ISR", same, up(7, 3, 9), "0@5? 1:3,0:7,2 i 2"},
		{"was made already", again, up(7, 3, 9), "0@5? 1:3,0:7,2 i 2"},
		{"is of an earlier leader epoch", late, up(7, 3, 9), ""},
		{"names the leader in a broker epoch in which it was not elected", restarted, up(8, 3, 9),
			""},
		{"names a broker epoch that is over", grow, up(7, 3, 10), ""},
		{"removes only a fenced member", shrink, up(7, 4, 9), "0@5? 1,0:7,2 i 2"},
	} {
		s := led()
		before := s.raw()
		_, err := s.ChangeISR(orders, c.change, c.up)
		switch {
		case c.want == "" && (!errors.Is(err, metadata.ErrISRConflict) || s.raw() != before ||
			s.StatusChanged()):
			t.Errorf("a change that %s: got %v, %q", c.name, err, s.raw())
		case c.want != "" && (err != nil || s.raw() != c.want):
			t.Errorf("a change that %s: got %v, %q, want %q", c.name, err, s.raw(), c.want)
		}
	}
	left := led()
	left.StopServing(orders, placement.InSyncReplica{Broker: 0, Epoch: 7}, 5, up(7, 3, 9))
	back := metadata.ISRChange{LeaderEpoch: 5, From: []int32{1}, To: grow.To[:2]}
	if _, err := left.ChangeISR(orders, back, up(7, 3, 9)); !errors.Is(err,
		metadata.ErrISRConflict) {
		t.Errorf("a leader that has left the ISR adds itself: got %v, %q", err, left.raw())
	}
	if _, err := led().ChangeISR(Key{"other", 0}, grow, up(7, 3, 9)); !errors.Is(err,
		metadata.ErrISRConflict) {
		t.Errorf("a change of an unknown partition: got %v", err)
	}
}

func TestLeaderReportsWhatItServes(t *testing.T) {
	self := placement.InSyncReplica{Broker: 0, Epoch: 7}
	for _, c := range []struct {
		name   string
		report func(*Set)
		want   string
	}{
		{"serves", func(s *Set) { s.Serve(orders, self, 5) }, "0@5 1:3,0:7,2 i 2"},
		{"serves twice", func(s *Set) { s.Serve(orders, self, 5); s.Serve(orders, self, 5) },
			"0@5 1:3,0:7,2 i 2"},
		{"served in an earlier leader epoch", func(s *Set) { s.Serve(orders, self, 4) },
			"0@5? 1:3,0:7,2 i 1"},
		{"served in an earlier broker epoch", func(s *Set) {
			s.Serve(orders, placement.InSyncReplica{Broker: 0, Epoch: 6}, 5)
		}, "0@5? 1:3,0:7,2 i 1"},
		{"stops, and another broker can lead", func(s *Set) {
			s.Serve(orders, self, 5)
			s.StopServing(orders, self, 5, up(7, 3, 9))
		}, "0@5? 1:3,0,2 i 3 dir=a"},
		{"stops, and no other broker can lead", func(s *Set) {
			s.Serve(orders, self, 5)
			s.StopServing(orders, self, 5, up(7, 4, 9))
		}, "0@5? 1:3,0:7,2 i 3"},
		{"has a stopped log and serves", func(s *Set) {
			s.Serve(orders, self, 5)
			s.StopLog(orders, self, up(7, 3, 9))
		}, "0@5? 1:3,0,2 i 3 dir=a"},
		{"has a stopped log and has not served", func(s *Set) {
			s.StopLog(orders, self, up(7, 3, 9))
			s.StopLog(orders, self, up(7, 3, 9))
		}, "0@5? 1:3,0,2 i 2 dir=a"},
		{"has a stopped log, and no other broker can lead", func(s *Set) {
			s.Serve(orders, self, 5)
			s.StopLog(orders, self, up(7, 4, 9))
			s.StopLog(orders, self, up(7, 4, 9))
		}, "0@5? 1:3,0:7,2 i 3"},
		{"has a follower with a stopped log", func(s *Set) {
			s.Serve(orders, self, 5)
			s.StopLog(orders, placement.InSyncReplica{Broker: 1, Epoch: 3}, up(7, 3, 9))
		}, "0@5 1,0:7,2 i 3"},
		{"leaves, and has a follower with a stopped log", func(s *Set) {
			leaving := up(7, 3, 9)
			leaving[0] = placement.BrokerState{Liveness: placement.Up, Epoch: 7, Leaving: true}
			s.StopLog(orders, placement.InSyncReplica{Broker: 1, Epoch: 3}, leaving)
		}, "0@5? 1:3,0:7,2 i 1"},
		{"has a follower whose log had stopped in an earlier broker epoch", func(s *Set) {
			s.StopLog(orders, placement.InSyncReplica{Broker: 1, Epoch: 2}, up(7, 3, 9))
		}, "0@5? 1:3,0:7,2 i 1"},
		{"has another replica with a stopped log", func(s *Set) {
			s.StopLog(orders, placement.InSyncReplica{Broker: 2, Epoch: 9}, up(7, 3, 9))
			s.StopLog(Key{Topic: "deleted"}, self, up(7, 3, 9))
		}, "0@5? 1:3,0:7,2 i 1"},
		{"found a later leader epoch", func(s *Set) { s.ReportFoundEpoch(orders, 0, 8) },
			"0@5? 1:3,0:7,2 i 2 found=8"},
		{"found an earlier leader epoch", func(s *Set) { s.ReportFoundEpoch(orders, 0, 4) },
			"0@5? 1:3,0:7,2 i 1"},
		{"is not the leader and found a leader epoch",
			func(s *Set) { s.ReportFoundEpoch(orders, 1, 8) }, "0@5? 1:3,0:7,2 i 1"},
	} {
		s := led()
		c.report(s)
		if s.raw() != c.want {
			t.Errorf("a leader that %s: got %q, want %q", c.name, s.raw(), c.want)
		}
	}
}

func TestPreferredLeaderIsElectedOnRequest(t *testing.T) {
	in := Input{Topics: map[string]Topic{"orders": {Tag: "abcdefgh", Partitions: 1}},
		Brokers: up(7, 3, 9), Incarnation: "i"}
	s := led()
	if s.Decide(in); s.StatusChanged() {
		t.Fatalf("without a request: got %q", s.raw())
	}
	if err := s.RequestPreferred(orders); err != nil || s.raw() != "0@5? 1:3,0:7,2 i 2 prefer=5" {
		t.Fatalf("got %v, %q", err, s.raw())
	}
	s.Decide(in)
	if want := "1@6? 1:3,0:7,2 i 3"; s.raw() != want {
		t.Errorf("got %q, want %q", s.raw(), want)
	}
	if err := s.RequestPreferred(orders); !errors.Is(err, metadata.ErrElectionNotNeeded) {
		t.Errorf("the preferred leader leads: got %v", err)
	}
	s = led()
	s.Assign(orders, Assignment{Replicas: []int32{2, 0, 1}, Tag: "abcdefgh"})
	if err := s.RequestPreferred(orders); !errors.Is(err, metadata.ErrPreferredUnavailable) {
		t.Errorf("the preferred leader is not in sync: got %v", err)
	}
}

// TestTopicDecidesOnTheLeader checks that a partition loses its leader, and keeps everything else,
// if its Topic no longer exists, was created again, or has fewer partitions.
func TestTopicDecidesOnTheLeader(t *testing.T) {
	for name, topics := range map[string]map[string]Topic{
		"gone":             nil,
		"created again":    {"orders": {Tag: "other", Partitions: 1}},
		"fewer partitions": {"orders": {Tag: "abcdefgh", Partitions: 0}},
	} {
		s := led()
		s.Decide(Input{Topics: topics, Brokers: up(7, 3, 9), Incarnation: "i"})
		if want := "-@6? 1:3,0:7,2 i 2 dir=a"; s.raw() != want {
			t.Errorf("%s: got %q, want %q", name, s.raw(), want)
		}
	}
}

// TestLeadersChangeTheISRThemselves checks that, with LeaveISR, the ISR of a leader that serves
// keeps a dead follower, and a partition without a leader gets one.
func TestLeadersChangeTheISRThemselves(t *testing.T) {
	in := Input{Topics: map[string]Topic{"orders": {Tag: "abcdefgh", Partitions: 1}},
		Brokers: up(7, 3, 9), Incarnation: "i", LeaveISR: true}
	delete(in.Brokers, 1)
	s := led()
	s.Serve(orders, placement.InSyncReplica{Broker: 0, Epoch: 7}, 5)
	before := s.raw()
	decided := s.Decide(in)
	if s.raw() != before || len(decided) != 1 || !reflect.DeepEqual(decided[0].Before,
		decided[0].After) {
		t.Errorf("the operator changed %q to %q", before, s.raw())
	}
	in.LeaveISR = false
	if s.Decide(in); s.raw() != "0@5 1,0:7,2 i 3" {
		t.Errorf("later: got %q", s.raw())
	}
	s = led()
	in.LeaveISR, in.Brokers = true, up(7, 3, 9)
	delete(in.Brokers, 0)
	if s.Decide(in); s.raw() != "1@6? 1:3,0,2 i 2" {
		t.Errorf("the leader is down: got %q", s.raw())
	}
}
