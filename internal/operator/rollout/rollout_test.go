package rollout

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// read makes brokers of a text, a letter each: o old and ready, O old and not; n new and ready, m
// for a moment only, N new and not; . not there.
func read(text string) []Broker {
	var all []Broker
	for _, c := range text {
		all = append(all, Broker{Updated: c == 'n' || c == 'N' || c == 'm',
			Ready: c == 'o' || c == 'n' || c == 'm', New: c == 'm'})
	}
	return all
}

func TestPartition(t *testing.T) {
	for name, c := range map[string]struct {
		brokers string
		under   int32
		present int32
		want    int32
	}{
		"nothing to do":                               {"nnn", 0, 0, 3},
		"it begins with the last":                     {"ooo", 0, 3, 2},
		"not while some are not in sync":              {"ooo", 1, 3, 3},
		"nor while another is not ready":              {"Ooo", 0, 3, 3},
		"the last is on its way":                      {"oo.", 5, 2, 2},
		"it is there and not ready":                   {"ooN", 5, 2, 2},
		"it is ready, and catches up":                 {"oon", 5, 2, 2},
		"it has caught up, and clients look for it":   {"oom", 0, 2, 2},
		"the last one is back":                        {"mnn", 0, 0, 3},
		"a broken one goes while another is new":      {"oOm", 0, 2, 1},
		"the next":                                    {"oon", 0, 2, 1},
		"the first":                                   {"onn", 0, 1, 0},
		"the last one is not ready yet":               {"Nnn", 1, 0, 0},
		"a broken one goes whatever the others are":   {"OOO", 9, 3, 2},
		"a broken one is mended by another template":  {"ooO", 4, 2, 2},
		"behind a broken new one the others wait":     {"ooN", 0, 2, 2},
		"a cluster that grew":                         {"nn.", 0, 2, 2},
		"a cluster that shrank while it was rolled":   {"oo", 1, 3, 2},
		"one broker":                                  {"o", 0, 1, 0},
		"one broker that is back with nobody in sync": {"n", 1, 0, 1},
	} {
		state := State{Brokers: read(c.brokers), UnderReplicated: c.under, Partition: c.present,
			Settled: true}
		if got := Partition(state); got != c.want {
			t.Errorf("%s: partition %d, want %d", name, got, c.want)
		}
		state.Settled = false
		if got := Partition(state); got != min(c.present, int32(len(c.brokers))) {
			t.Errorf("%s: not settled, partition %d", name, got)
		}
	}
}

// TestARolloutRestartsOneAtATime plays the StatefulSet's controller in random order against the
// invariant, and to the end.
func TestARolloutRestartsOneAtATime(t *testing.T) {
	for seed := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(seed, 1))
		brokers := read("ooooo"[:1+random.IntN(5)])
		state := State{Brokers: brokers, Partition: int32(len(brokers)), Settled: true}
		under := make([]bool, len(brokers)) // replicas on it have not caught up
		done := false
		for range 10_000 {
			state.Partition = Partition(state)
			if next, _ := Waiting(state); next < 0 {
				done = true
				break
			}
			step(t, random, &state, under)
			away := 0
			for at, b := range brokers {
				if !b.Ready || b.New || under[at] {
					away++
				}
			}
			if away > 1 {
				t.Fatalf("seed %d: %d brokers are away at once: %+v", seed, away, brokers)
			}
		}
		if !done {
			t.Fatalf("seed %d: it never ends: %+v", seed, state)
		}
	}
}

// step lets one thing happen to a broker: its pod is replaced, gets ready, catches up.
func step(t *testing.T, random *rand.Rand, state *State, under []bool) {
	t.Helper()
	at := random.IntN(len(state.Brokers))
	b := &state.Brokers[at]
	switch {
	case !b.Updated && int32(at) >= state.Partition:
		*b = Broker{Updated: true}
		under[at] = true
	case !b.Ready:
		b.Ready, b.New = true, true
	case b.New:
		b.New = false
	default:
		under[at] = false
	}
	state.UnderReplicated = 0
	for _, away := range under {
		if away {
			state.UnderReplicated++
		}
	}
}
