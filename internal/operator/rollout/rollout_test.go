package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/seed"
)

// parse parses a text with one letter per broker.
// Old template:
//
//	'o': ready
//	'a': ready, not approved
//	'w': ready, outside the window
//	'u': up, but not ready
//	'O': neither ready nor up
//	'A': neither ready nor up, not approved
//
// Latest template:
//
//	'n': ready
//	'm': ready and settling
//	'N': not ready
//
// The first broker leads the fewest partitions.
func parse(text string) []Broker {
	var all []Broker
	for id, c := range text {
		all = append(all, Broker{Updated: c == 'n' || c == 'N' || c == 'm',
			Ready: strings.ContainsRune("onmaw", c), Up: !strings.ContainsRune("ONA", c),
			Settling: c == 'm', Leaders: id,
			Hold: map[rune]Hold{'a': Approval, 'A': Approval, 'w': OutsideWindow}[c]})
	}
	return all
}

// partition returns a partition with the given replicas. The replicas in isr are in sync.
func partition(minISR int, replicas, isr []int32) Partition {
	return Partition{Name: fmt.Sprintf("t/%v", isr),
		Stop: placement.Stop{Replicas: replicas, InSync: isr, MinISR: minISR}}
}

func TestNext(t *testing.T) {
	three := []int32{0, 1, 2}
	for name, c := range map[string]struct {
		brokers    string
		partitions []Partition
		want       Decision
	}{
		"complete":                   {"nnn", nil, Decision{Complete, -1, "", 0, NoHold}},
		"complete, settling":         {"nmn", nil, Decision{Complete, -1, "", 0, NoHold}},
		"fewest leaders first":       {"ooo", nil, Decision{Restart, 0, "", 3, NoHold}},
		"next":                       {"noo", nil, Decision{Restart, 1, "", 2, NoHold}},
		"last pod not ready":         {"Nnn", nil, Decision{Waiting, 0, "", 0, NoHold}},
		"new template broken":        {"Noo", nil, Decision{Waiting, 0, "", 2, NoHold}},
		"settling":                   {"moo", nil, Decision{Waiting, 0, "", 2, NoHold}},
		"broken pod first":           {"ooO", nil, Decision{Restart, 2, "", 3, NoHold}},
		"broken pod, other settling": {"moO", nil, Decision{Restart, 2, "", 2, NoHold}},
		"all broken":                 {"OOO", nil, Decision{Restart, 0, "", 3, NoHold}},
		"unreachable node":           {"uuo", nil, Decision{Restart, 0, "", 3, NoHold}},
		"not ready first":            {"oou", nil, Decision{Restart, 2, "", 3, NoHold}},
		"not ready, but needed": {"oou", []Partition{partition(2, []int32{1, 2}, []int32{2})},
			Decision{Restart, 0, "", 3, NoHold}},
		"in sync": {"ooo", []Partition{partition(2, three, three)},
			Decision{Restart, 0, "", 3, NoHold}},
		"a partition delays its brokers only": {"ooo",
			[]Partition{partition(2, []int32{0, 1}, []int32{0})},
			Decision{Restart, 2, "", 3, NoHold}},
		"under-replicated, enough in sync": {"ooo", []Partition{partition(1, three, []int32{1, 2})},
			Decision{Restart, 0, "", 3, NoHold}},
		"too few in sync": {"ooo", []Partition{partition(2, three, []int32{1, 2})},
			Decision{Restart, 0, "", 3, NoHold}},
		"blocked": {"noo", []Partition{partition(2, three, []int32{1, 2})},
			Decision{Waiting, 1, "t/[1 2]", 2, NoHold}},
		"a member that is down does not count": {"noN",
			[]Partition{partition(1, three, []int32{1, 2})}, Decision{Waiting, 2, "", 1, NoHold}},
		"not approved":                    {"aaa", nil, Decision{Held, 0, "", 3, Approval}},
		"outside the window":              {"nww", nil, Decision{Held, 1, "", 2, OutsideWindow}},
		"not approved, requested restart": {"aao", nil, Decision{Restart, 2, "", 3, NoHold}},
		"not approved, broken":            {"aAa", nil, Decision{Restart, 1, "", 3, NoHold}},
		"not approved, other broken":      {"aNa", nil, Decision{Waiting, 1, "", 2, NoHold}},
		"not approved, requested restart blocked": {"aao",
			[]Partition{partition(3, three, three), partition(2, three, []int32{1, 2})},
			Decision{Waiting, 2, "t/[1 2]", 3, NoHold}},
	} {
		state := State{Brokers: parse(c.brokers), Partitions: c.partitions, Observed: true}
		if got := Next(state); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		state.Observed = false
		if got := Next(state); got.Phase != Waiting || got.Broker != -1 {
			t.Errorf("%s, spec not observed: got %+v, want it to wait", name, got)
		}
	}
}

// TestBlockingPartitionIsTheSameInAnyOrder checks that the reported partition does not depend on
// the order of the partitions, which is random in the operator. If the reported partition changed,
// an update that waits for the same partitions would never count as stuck.
func TestBlockingPartitionIsTheSameInAnyOrder(t *testing.T) {
	single := func(name string, lend bool) Partition {
		p := partition(1, []int32{0}, []int32{0})
		p.Name, p.Lend = name, lend
		return p
	}
	lagging := func(name string) Partition {
		p := partition(2, []int32{0, 1}, []int32{0})
		p.Name = name
		return p
	}
	for name, c := range map[string]struct {
		all  []Partition
		want string
	}{
		"lagging":             {[]Partition{lagging("c"), lagging("b"), lagging("d")}, "b"},
		"one replica":         {[]Partition{single("c", true), single("b", true)}, "b"},
		"lagging, not single": {[]Partition{single("a", true), lagging("b")}, "b"},
	} {
		for range 2 {
			s := State{Brokers: parse("oo"), Partitions: c.all, Observed: true}
			if got := s.Blocking(0); got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
			slices.Reverse(c.all)
		}
	}
	s := State{Brokers: parse("nn"), Observed: true,
		Partitions: []Partition{lagging("c"), lagging("b"), single("a", false)}}
	if got := s.notInSync(-1); got != "b" {
		t.Errorf("not in sync: got %q, want b", got)
	}
	s.Partitions = []Partition{single("c", false), single("b", false)}
	if got, why := s.keeps(0, nil); got != "b" || why != OnlyReplica {
		t.Errorf("keeps its volume because of %q (%d), want b", got, why)
	}
}

// simulation is a cluster whose brokers are restarted according to Next. Replicas leave the ISR
// while their broker is down, and return some steps after the broker.
type simulation struct{ state State }

func newSimulation(random *rand.Rand) *simulation {
	brokers := 1 + random.IntN(5)
	s := &simulation{state: State{Brokers: parse("ooooo"[:brokers]), Observed: true}}
	for range 1 + random.IntN(8) {
		replicas := make([]int32, 1+random.IntN(min(brokers, 3)))
		for index, id := range random.Perm(brokers)[:len(replicas)] {
			replicas[index] = int32(id)
		}
		s.state.Partitions = append(s.state.Partitions,
			partition(1+random.IntN(len(replicas)), replicas, slices.Clone(replicas)))
	}
	return s
}

// step makes one random change: a broker's pod becomes ready or settles, or a replica catches up.
func (s *simulation) step(random *rand.Rand) {
	b := &s.state.Brokers[random.IntN(len(s.state.Brokers))]
	switch {
	case !b.Up:
		b.Up = true
	case !b.Ready:
		b.Ready, b.Settling = true, true
	case b.Settling:
		b.Settling = false
	}
	p := &s.state.Partitions[random.IntN(len(s.state.Partitions))]
	for _, id := range p.Replicas {
		if s.state.Brokers[id].Up && !slices.Contains(p.InSync, id) && random.IntN(4) == 0 {
			p.InSync = append(slices.Clone(p.InSync), id)
			return
		}
	}
}

// restart stops a broker. The test fails if this makes a partition unavailable that has several
// replicas and does not need all of them.
func (s *simulation) restart(t *testing.T, id int32) {
	t.Helper()
	s.state.Brokers[id] = Broker{Updated: true, Leaders: s.state.Brokers[id].Leaders}
	for i := range s.state.Partitions {
		p := &s.state.Partitions[i]
		if p.InSync = slices.DeleteFunc(slices.Clone(p.InSync),
			func(other int32) bool { return other == id }); len(p.Replicas) > 1 &&
			len(p.InSync) < min(p.MinISR, len(p.Replicas)-1) {
			t.Fatalf("restart of broker %d: partition %+v has too few in-sync replicas", id, p)
		}
	}
}

// TestRollingUpdateKeepsPartitionsAvailable checks that, during simulated rolling updates with
// random steps, no restart leaves a partition with too few in-sync replicas, and every update
// completes.
func TestRollingUpdateKeepsPartitionsAvailable(t *testing.T) {
	for seed := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newSimulation(random)
		done := false
		for range 100_000 {
			decision := Next(s.state)
			if done = decision.Phase == Complete; done {
				break
			}
			if decision.Phase == Restart {
				s.restart(t, decision.Broker)
			}
			s.step(random)
		}
		if !done {
			t.Fatalf("seed %d: the update did not complete: %+v", seed, s.state)
		}
	}
}

func TestHold(t *testing.T) {
	for terms, want := range map[Terms]Hold{
		{Approved: true, Inside: true}: NoHold,
		{Approved: true}:               OutsideWindow,
		{Inside: true}:                 Approval,
		{}:                             Approval,
	} {
		if got := terms.Hold(false); got != want {
			t.Errorf("%+v: got %v, want %v", terms, got, want)
		}
		if got := terms.Hold(true); got != NoHold {
			t.Errorf("%+v, requested: got %v", terms, got)
		}
	}
}
