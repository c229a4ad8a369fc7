package scrape

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestNilLevelExportsEverything(t *testing.T) {
	var level *Level
	if !level.Full() {
		t.Error("a nil level is not full")
	}
	set := &Level{}
	if set.Full() {
		t.Error("the zero value is full")
	}
	if set.Set(true); !set.Full() {
		t.Error("the level is not full after Set")
	}
}

// TestTotalsNeverFall compares Totals with a model that counts every increment as it happens.
// Totals can miss increments of an object that is replaced by a new object with higher counters.
// But it must never fall, nor count anything twice.
func TestTotalsNeverFall(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	var totals Totals[int]
	want, before := make([]float64, 2), make([]float64, 2)
	objects := map[int][]float64{}
	for range 1000 {
		switch key := random.IntN(8); random.IntN(3) {
		case 0: // a new object with the same key starts at 0
			objects[key] = make([]float64, 2)
		case 1:
			delete(objects, key)
		}
		for key := range objects {
			for i, n := range []float64{float64(random.IntN(4)), float64(random.IntN(2))} {
				objects[key][i] += n
				want[i] += n
			}
		}
		present := map[int][]float64{}
		for key, counters := range objects {
			present[key] = slices.Clone(counters)
		}
		got := totals.Sum(present, 2)
		for i := range got {
			if got[i] < before[i] {
				t.Fatalf("counter %d falls from %v to %v", i, before[i], got[i])
			}
			if got[i] > want[i] {
				t.Fatalf("counter %d is %v, more than the %v that were counted", i, got[i], want[i])
			}
		}
		before = got
	}
}

func TestTotalsIncludeRemovedObjects(t *testing.T) {
	var totals Totals[string]
	for i, step := range []struct {
		present map[string][]float64
		want    float64
	}{
		{nil, 0},
		{map[string][]float64{"a": {3}, "b": {1}}, 4},
		{map[string][]float64{"b": {2}}, 5},
		{map[string][]float64{"a": {1}, "b": {2}}, 6},
		{map[string][]float64{"a": {4}, "b": {1}}, 10}, // b was removed and added again
		{nil, 10},
	} {
		if got := totals.Sum(step.present, 1); got[0] != step.want {
			t.Errorf("step %d: %v, want %v", i, got[0], step.want)
		}
	}
}
