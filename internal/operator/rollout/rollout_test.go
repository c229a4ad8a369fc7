package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/seed"
)

// parse parses a text with one letter per broker. Old template: o ready, u up but not ready, O
// neither. Latest template: n ready, m ready and settling, N not ready. The first broker leads the
// fewest partitions.
func parse(text string) []Broker {
	var all []Broker
	for id, c := range text {
		all = append(all, Broker{Updated: c == 'n' || c == 'N' || c == 'm',
			Ready: c == 'o' || c == 'n' || c == 'm', Up: c != 'O' && c != 'N',
			Settling: c == 'm', Leaders: id})
	}
	return all
}

// partition returns a partition of the given replicas, of which those in isr are in sync.
func partition(minISR int, replicas, isr []int32) Partition {
	return Partition{fmt.Sprintf("t/%v", isr),
		placement.Stop{Replicas: replicas, InSync: isr, MinISR: minISR}}
}

func TestNext(t *testing.T) {
	three := []int32{0, 1, 2}
	for name, c := range map[string]struct {
		brokers    string
		partitions []Partition
		want       Decision
	}{
		"complete":                   {"nnn", nil, Decision{Complete, -1, "", 0}},
		"complete, settling":         {"nmn", nil, Decision{Complete, -1, "", 0}},
		"fewest leaders first":       {"ooo", nil, Decision{Restart, 0, "", 3}},
		"next":                       {"noo", nil, Decision{Restart, 1, "", 2}},
		"last pod not ready":         {"Nnn", nil, Decision{Waiting, 0, "", 0}},
		"new template broken":        {"Noo", nil, Decision{Waiting, 0, "", 2}},
		"settling":                   {"moo", nil, Decision{Waiting, 0, "", 2}},
		"broken pod first":           {"ooO", nil, Decision{Restart, 2, "", 3}},
		"broken pod, other settling": {"moO", nil, Decision{Restart, 2, "", 2}},
		"all broken":                 {"OOO", nil, Decision{Restart, 0, "", 3}},
		"unreachable node":           {"uuo", nil, Decision{Restart, 0, "", 3}},
		"in sync": {"ooo", []Partition{partition(2, three, three)},
			Decision{Restart, 0, "", 3}},
		"a partition delays its brokers only": {"ooo",
			[]Partition{partition(2, []int32{0, 1}, []int32{0})},
			Decision{Restart, 2, "", 3}},
		"under-replicated, enough in sync": {"ooo", []Partition{partition(1, three, []int32{1, 2})},
			Decision{Restart, 0, "", 3}},
		"too few in sync": {"ooo", []Partition{partition(2, three, []int32{1, 2})},
			Decision{Restart, 0, "", 3}},
		"blocked": {"noo", []Partition{partition(2, three, []int32{1, 2})},
			Decision{Waiting, 1, "t/[1 2]", 2}},
		"a member that is down does not count": {"noN",
			[]Partition{partition(1, three, []int32{1, 2})}, Decision{Waiting, 2, "", 1}},
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

// simulation is a cluster whose brokers are restarted by Next. Replicas fall out of the ISR while
// their broker is down and return some steps after it.
type simulation struct{ state State }

func newSimulation(random *rand.Rand) *simulation {
	brokers := 1 + random.IntN(5)
	s := &simulation{state: State{Brokers: parse("ooooo"[:brokers]), Observed: true}}
	for range 1 + random.IntN(8) {
		replicas := make([]int32, 1+random.IntN(min(brokers, 3)))
		for at, id := range random.Perm(brokers)[:len(replicas)] {
			replicas[at] = int32(id)
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

// restart stops a broker. It fails if this makes a partition unavailable that has other replicas
// and does not need all of them.
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

// TestRollingUpdateKeepsPartitionsAvailable simulates rolling updates with random steps. No restart
// leaves a partition with too few in-sync replicas, and every update completes.
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
