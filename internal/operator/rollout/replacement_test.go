package rollout

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestNextVolume(t *testing.T) {
	three := []int32{0, 1, 2}
	all := map[int32]bool{0: false, 1: false, 2: false}
	inSync := partition(2, three, three)
	only := func(id int32) Partition { return partition(1, []int32{id}, []int32{id}) }
	for name, c := range map[string]struct {
		brokers    string
		replace    map[int32]bool
		partitions []Partition
		retained   []Partition
		phase      Phase
		broker     int32
		outdated   int
		why        Why
		outside    map[int32]bool
	}{
		"nothing to replace": {"nnn", nil, nil, nil, Complete, -1, 0, NoReason, nil},
		"a broker that does not exist": {"nnn", map[int32]bool{7: true}, nil, nil, Complete, -1, 0,
			NoReason, nil},
		"fewest leaders first": {"nnn", all, []Partition{inSync}, nil, Restart, 0, 3, NoReason, nil},
		"restarts first":       {"non", all, nil, nil, Restart, 1, 1, NoReason, nil},
		"one at a time": {"nNn", map[int32]bool{2: false}, nil, nil, Waiting, 1, 0,
			NoReason, nil},
		"settling": {"nmn", map[int32]bool{2: false}, nil, nil, Waiting, 1, 1, NoReason, nil},
		"others still copy": {"nnn", map[int32]bool{2: false},
			[]Partition{inSync, partition(1, []int32{0, 1}, []int32{0})}, nil, Waiting, 2, 1,
			NotInSync, nil},
		"the only replica": {"nnn", map[int32]bool{0: false}, []Partition{inSync, only(0)}, nil,
			Waiting, 0, 1, OnlyReplica, nil},
		"the only replica, others continue": {"nnn", all, []Partition{only(0)}, nil, Restart, 1, 3,
			NoReason, nil},
		"retained records": {"nnn", map[int32]bool{1: false}, nil,
			[]Partition{partition(1, []int32{1, 2}, nil)}, Waiting, 1, 1, RetainedRecords, nil},
		"no volume yet": {"nNn", map[int32]bool{1: true, 2: false}, nil, nil, Restart, 1, 2,
			NoReason, nil},
		"no volume yet, runs": {"nmn", map[int32]bool{1: true}, nil, nil, Waiting, 1, 1, NoReason, nil},
		"down, with its volume": {"nNn", map[int32]bool{1: false}, nil, nil, Waiting, 1, 0,
			NoReason, nil},
		"down, in no ISR": {"nNn", map[int32]bool{1: false},
			[]Partition{partition(1, three, []int32{0, 2})}, nil, Restart, 1, 1, NoReason,
			map[int32]bool{1: true}},
		"down, in no ISR, others still copy": {"nNn", map[int32]bool{1: false},
			[]Partition{partition(1, three, []int32{0})}, nil, Waiting, 1, 0, NoReason,
			map[int32]bool{1: true}},
		"down, in no ISR, another settling": {"nNm", map[int32]bool{1: false}, nil, nil, Waiting, 1,
			0, NoReason, map[int32]bool{1: true}},
	} {
		t.Run(name, func(t *testing.T) {
			state := State{Brokers: parse(c.brokers), Partitions: c.partitions, Observed: true}
			volumes := Volumes{Replace: c.replace, Retained: c.retained, Outside: c.outside}
			got, why := NextVolume(state, volumes, Next(state))
			if got.Phase != c.phase || got.Broker != c.broker || got.Outdated != c.outdated ||
				why != c.why {
				t.Errorf("got %+v, %d", got, why)
			}
			if why != NoReason && got.Partition == "" {
				t.Error("no partition is named")
			}
			state.Observed = false
			if got, _ := NextVolume(state, volumes, Next(state)); got.Phase != Waiting {
				t.Errorf("spec not observed: got %+v, want it to wait", got)
			}
		})
	}
}

// TestReplacementKeepsACopy checks that, during simulated replacements with random steps, a broker
// loses its volume only while all replicas of its partitions on other brokers are in sync. In the
// end, all volumes must be replaced, unless a broker has the only replica of a partition.
func TestReplacementKeepsACopy(t *testing.T) {
	for seed := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newSimulation(random)
		volumes := Volumes{Replace: map[int32]bool{}}
		for id := range s.state.Brokers {
			volumes.Replace[int32(id)] = false
		}
		for range 20_000 {
			restart := Next(s.state)
			if restart.Phase == Restart {
				s.restart(t, restart.Broker)
			}
			decision, _ := NextVolume(s.state, volumes, restart)
			if restart.Phase == Complete && decision.Phase == Restart {
				for _, p := range s.state.Partitions {
					if slices.Contains(p.Replicas, decision.Broker) && (len(p.Replicas) == 1 ||
						len(p.InSync) != len(p.Replicas)) {
						t.Fatalf("seed %d: broker %d loses its volume: %+v", seed, decision.Broker, p)
					}
				}
				s.restart(t, decision.Broker)
				delete(volumes.Replace, decision.Broker)
			}
			s.step(random)
		}
		for id := range volumes.Replace {
			if !slices.ContainsFunc(s.state.Partitions, func(p Partition) bool {
				return slices.Equal(p.Replicas, []int32{id})
			}) {
				t.Fatalf("seed %d: the volume of broker %d was not replaced: %+v", seed, id, s.state)
			}
		}
	}
}

func TestClaimIsDeletedOnlyWithoutAnISR(t *testing.T) {
	for bits := range 32 {
		s := Stopping{Wanted: bits&1 != 0, Stopped: bits&2 != 0, Forced: bits&4 != 0,
			InISR: bits&8 != 0, Expired: bits&16 != 0}
		got := s.Next()
		if want := s.Wanted && s.Stopped && !s.InISR; (got == Discard) != want {
			t.Errorf("%+v: got %d, want deletion %t", s, got, want)
		}
		if got == Wait && (!s.Wanted || s.Stopped && !s.InISR) {
			t.Errorf("%+v waits for nothing", s)
		}
	}
}
