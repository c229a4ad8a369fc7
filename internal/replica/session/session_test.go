package session

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestEpochsWrapAround(t *testing.T) {
	if next := (ID{5, math.MaxInt32}).Next(); next != (ID{5, 1}) {
		t.Errorf("%v follows the largest epoch, want epoch 1", next)
	}
}

func TestSequenceRejectsRepeatedFetches(t *testing.T) {
	s := NewSequence()
	for _, c := range []struct {
		epoch int32
		want  error
	}{{New, nil}, {2, ErrEpoch}, {1, nil}, {1, ErrEpoch}, {2, nil}, {None, ErrEpoch}} {
		if err := s.Accept(ID{7, c.epoch}); !errors.Is(err, c.want) {
			t.Errorf("epoch %d: %v, want %v", c.epoch, err, c.want)
		}
	}
}

type marked struct {
	Mark
	name string
}

func TestDirtyListKeepsOrderAndDropsRemoved(t *testing.T) {
	var list DirtyList[*marked]
	a, b, c := &marked{name: "a"}, &marked{name: "b"}, &marked{name: "c"}
	for _, m := range []*marked{b, a, c, b} {
		list.Add(m)
	}
	list.Remove(a)
	if taken := list.Take(); len(taken) != 2 || taken[0] != b || taken[1] != c {
		t.Errorf("took %v, want b and c", taken)
	}
	list.Add(a)
	list.Add(c)
	if taken := list.Take(); len(taken) != 1 || taken[0] != c {
		t.Errorf("took %v, want c again and no removed partition", taken)
	}
}

// TestFollowerMatchesItsLeader checks the invariant of Follower while requests and responses are
// lost and the leader closes sessions. The simulated leader applies every request that it receives.
func TestFollowerMatchesItsLeader(t *testing.T) {
	for s := range seed.Sequence(t, 200) {
		random := rand.New(rand.NewPCG(s, 0))
		var f Follower[int]
		var leader map[Key]int // requests in the leader's session; nil if there is no session
		var sequence Sequence
		want := map[Key]int{}
		for range 200 {
			key := Key{Name: "t", Index: int32(random.IntN(5))}
			if random.IntN(3) == 0 {
				delete(want, key)
			} else {
				want[key] = random.IntN(4)
			}
			if f.Full() {
				f.Reset()
			}
			for key := range f.All() {
				if _, ok := want[key]; !ok {
					f.Remove(key)
				}
			}
			request := map[Key]int{}
			for key, p := range want {
				if f.Update(key, p) {
					request[key] = p
				}
			}
			fate := random.IntN(10)
			if fate == 0 { // the request is lost
				f.Failed()
				continue
			}
			if fate == 1 {
				leader = nil
			}
			switch {
			case f.Full():
				leader, sequence = map[Key]int{}, NewSequence()
			case leader == nil || sequence.Accept(f.ID()) != nil:
				f.Failed()
				continue
			}
			maps.Copy(leader, request)
			for _, key := range f.Forgotten() {
				delete(leader, key)
			}
			if fate == 2 { // the response is lost
				f.Failed()
				continue
			}
			if f.Succeeded(9); !maps.Equal(leader, want) || f.Len() != len(want) {
				t.Fatalf("seed %d: the leader's session contains %v, the follower wants %v", s,
					leader,
					want)
			}
		}
	}
}
