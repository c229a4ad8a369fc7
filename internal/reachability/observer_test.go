package reachability

import (
	"testing"
	"time"
)

func TestPeersThatDoNotAnswerAreReported(t *testing.T) {
	const s = time.Second
	a, b := Peer{1, 1}, Peer{2, 1}
	type step struct {
		elapsed  time.Duration
		answered []Peer
		peers    []Peer
		want     string
	}
	for name, steps := range map[string][]step{
		"answers stop": {{0, nil, []Peer{a, b}, ""}, {1 * s, []Peer{a, b}, []Peer{a, b}, ""},
			{2 * s, []Peer{b}, []Peer{a, b}, ""}, {3 * s, []Peer{b}, []Peer{a, b}, ""},
			{4 * s, []Peer{b}, []Peer{a, b}, "1:1"}, {5 * s, []Peer{a, b}, []Peer{a, b}, ""}},
		"no first answer": {{0, nil, []Peer{a}, ""}, {1 * s, nil, []Peer{a}, ""},
			{2 * s, nil, []Peer{a}, ""}, {3 * s, nil, []Peer{a}, ""}, {4 * s, nil, []Peer{a}, ""},
			{5 * s, nil, []Peer{a}, ""}, {6 * s, nil, []Peer{a}, ""}, {7 * s, nil, []Peer{a}, ""},
			{8 * s, nil, []Peer{a}, ""}, {9 * s, nil, []Peer{a}, ""}, {10 * s, nil, []Peer{a}, "1:1"}},
		"this process did not run": {{0, nil, []Peer{a}, ""}, {1 * s, []Peer{a}, []Peer{a}, ""},
			{9 * s, nil, []Peer{a}, ""}, {10 * s, nil, []Peer{a}, ""},
			{11 * s, nil, []Peer{a}, "1:1"}},
		"another epoch": {{0, nil, []Peer{a}, ""}, {1 * s, []Peer{a}, []Peer{a}, ""},
			{2 * s, nil, []Peer{a}, ""}, {3 * s, nil, []Peer{a}, ""}, {4 * s, nil, []Peer{a}, "1:1"},
			{5 * s, nil, []Peer{{1, 2}}, ""}},
	} {
		var o Observer
		for _, step := range steps {
			for _, p := range step.answered {
				o.Answered(p, noon.Add(step.elapsed))
			}
			if got := o.Tick(step.peers, noon.Add(step.elapsed)); got.String() != step.want {
				t.Errorf("%s, after %v: got %q, want %q", name, step.elapsed, got, step.want)
			}
		}
	}
}
