package placement

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestElect(t *testing.T) {
	for _, test := range []struct {
		name    string
		c       Candidate
		alive   []int32
		want    int32
		changed bool
	}{
		{"a new partition gets its preferred leader", Candidate{[]int32{2, 0}, []int32{2, 0}, NoLeader}, []int32{0, 2}, 2, true},
		{"the present leader stays, preferred or not", Candidate{[]int32{2, 0}, []int32{2, 0}, 0}, []int32{0, 2}, 0, false},
		{"a dead leader is followed by one in sync", Candidate{[]int32{2, 0, 1}, []int32{2, 1}, 2}, []int32{0, 1}, 1, true},
		{"never one out of sync", Candidate{[]int32{2, 0}, []int32{2}, 2}, []int32{0}, NoLeader, true},
		{"offline stays offline", Candidate{[]int32{2, 0}, []int32{2}, NoLeader}, []int32{0}, NoLeader, false},
		{"back from offline", Candidate{[]int32{2, 0}, []int32{2}, NoLeader}, []int32{2}, 2, true},
		{"a leader that lost its log yields", Candidate{[]int32{2, 0}, []int32{0}, 2}, []int32{0, 2}, 0, true},
		{"a leader that holds no replica any more yields", Candidate{[]int32{0}, []int32{0, 2}, 2}, []int32{0, 2}, 0, true},
		{"nothing in sync", Candidate{[]int32{0}, nil, NoLeader}, []int32{0}, NoLeader, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			leader, changed := Elect(test.c, func(id int32) bool { return slices.Contains(test.alive, id) })
			if leader != test.want || changed != test.changed {
				t.Errorf("leader %d, changed %t; want %d, %t", leader, changed, test.want, test.changed)
			}
		})
	}
}

// TestElectAgainstTheRule compares with the rule, said once more without its order of steps.
func TestElectAgainstTheRule(t *testing.T) {
	some := func(random *rand.Rand) []int32 {
		var ids []int32
		for id := range int32(5) {
			if random.IntN(2) == 0 {
				ids = append(ids, id)
			}
		}
		random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		return ids
	}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 2))
		c := Candidate{some(random), some(random), random.Int32N(6) - 1}
		alive := some(random)
		var eligible []int32
		for _, id := range c.Replicas {
			if slices.Contains(c.ISR, id) && slices.Contains(alive, id) {
				eligible = append(eligible, id)
			}
		}
		leader, changed := Elect(c, func(id int32) bool { return slices.Contains(alive, id) })
		want := NoLeader
		switch {
		case slices.Contains(eligible, c.Leader):
			want = c.Leader
		case len(eligible) > 0:
			want = eligible[0]
		}
		if leader != want || changed != (leader != c.Leader) {
			t.Fatalf("seed %d: %+v alive %v: leader %d, changed %t; want %d", seed, c, alive, leader, changed, want)
		}
	}
}
