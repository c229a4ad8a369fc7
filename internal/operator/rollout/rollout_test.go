package rollout

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// parse parses a text with one letter per broker. Old template: o ready, O not ready. New template:
// n ready, m ready and settling, N not ready. A dot is a missing pod.
func parse(text string) []Broker {
	var all []Broker
	for _, c := range text {
		all = append(all, Broker{Updated: c == 'n' || c == 'N' || c == 'm',
			Ready: c == 'o' || c == 'n' || c == 'm', Settling: c == 'm'})
	}
	return all
}

func TestHeld(t *testing.T) {
	for name, c := range map[string]struct {
		brokers string
		under   int32 // under-replicated partitions
		held    int32
		want    int32
	}{
		"complete":                              {"nnn", 0, 0, 3},
		"starts with the highest ordinal":       {"ooo", 0, 3, 2},
		"under-replicated":                      {"ooo", 1, 3, 3},
		"another broker not ready":              {"Ooo", 0, 3, 3},
		"pod missing":                           {"oo.", 5, 2, 2},
		"pod not ready":                         {"ooN", 5, 2, 2},
		"ready, catching up":                    {"oon", 5, 2, 2},
		"caught up, settling":                   {"oom", 0, 2, 2},
		"last pod settling":                     {"mnn", 0, 0, 3},
		"broken old pod while another settles":  {"oOm", 0, 2, 1},
		"next pod":                              {"oon", 0, 2, 1},
		"first pod":                             {"onn", 0, 1, 0},
		"last updated pod not ready":            {"Nnn", 1, 0, 0},
		"all broken":                            {"OOO", 9, 3, 2},
		"broken pod gets another template":      {"ooO", 4, 2, 2},
		"new template broken":                   {"ooN", 0, 2, 2},
		"scaled up":                             {"nn.", 0, 2, 2},
		"scaled down during an update":          {"oo", 1, 3, 2},
		"one broker":                            {"o", 0, 1, 0},
		"one broker, updated, under-replicated": {"n", 1, 0, 1},
	} {
		state := State{Brokers: parse(c.brokers), UnderReplicated: c.under, Held: c.held,
			Observed: true}
		if got := Held(state); got != c.want {
			t.Errorf("%s: got held %d, want %d", name, got, c.want)
		}
		state.Observed = false
		if got := Held(state); got != min(c.held, int32(len(c.brokers))) {
			t.Errorf("%s: spec not observed: got held %d, want it unchanged", name, got)
		}
	}
}

// TestRollingUpdateRestartsOneBrokerAtATime simulates a rolling update with random steps of the
// StatefulSet controller and the brokers. At most one broker may be unavailable at any time, and
// the update must complete.
func TestRollingUpdateRestartsOneBrokerAtATime(t *testing.T) {
	for seed := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(seed, 1))
		brokers := parse("ooooo"[:1+random.IntN(5)])
		state := State{Brokers: brokers, Held: int32(len(brokers)), Observed: true}
		under := make([]bool, len(brokers)) // brokers whose replicas have not caught up
		done := false
		for range 10_000 {
			state.Held = Held(state)
			if next, _ := Waiting(state); next < 0 {
				done = true
				break
			}
			step(t, random, &state, under)
			unavailable := 0
			for at, b := range brokers {
				if !b.Ready || b.Settling || under[at] {
					unavailable++
				}
			}
			if unavailable > 1 {
				t.Fatalf("seed %d: got %d brokers unavailable at the same time, want at most 1: %+v", seed, unavailable,
					brokers)
			}
		}
		if !done {
			t.Fatalf("seed %d: the update did not complete: %+v", seed, state)
		}
	}
}

// step makes one change to a random broker: its pod is replaced, becomes ready, is no longer
// settling, or its replicas catch up.
func step(t *testing.T, random *rand.Rand, state *State, under []bool) {
	t.Helper()
	at := random.IntN(len(state.Brokers))
	b := &state.Brokers[at]
	switch {
	case !b.Updated && int32(at) >= state.Held:
		*b = Broker{Updated: true}
		under[at] = true
	case !b.Ready:
		b.Ready, b.Settling = true, true
	case b.Settling:
		b.Settling = false
	default:
		under[at] = false
	}
	state.UnderReplicated = 0
	for _, behind := range under {
		if behind {
			state.UnderReplicated++
		}
	}
}
