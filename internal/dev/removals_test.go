package dev

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestRemovalsWaitForTheFile checks that a resource is removed when its file has lacked it for
// removalDelay without interruption, and not earlier.
func TestRemovalsWaitForTheFile(t *testing.T) {
	start := time.Unix(1000, 0)
	gone, lost := absence{resource: "Topic/gone", read: true}, absence{resource: "Topic/lost"}
	for _, test := range []struct {
		name  string
		steps []absence // absences in successive seconds
		want  bool
	}{
		{"for the delay", []absence{gone, gone, gone, gone, gone, gone}, true},
		{"shortly", []absence{gone, gone, gone, gone, gone}, false},
		{"with the file missing in between",
			[]absence{gone, gone, gone, {resource: "Topic/gone"}, gone, gone, gone}, false},
		{"with the topic back in between", []absence{gone, gone, gone, lost, gone, gone, gone}, false},
		{"file missing", []absence{lost, lost, lost, lost, lost, lost, lost, lost}, false},
	} {
		var r removals
		removed := false
		for second, a := range test.steps {
			due, _ := r.step(start.Add(time.Duration(second)*time.Second), []absence{a})
			removed = removed || len(due) > 0
		}
		if removed != test.want {
			t.Errorf("%s: removed: %t, want %t", test.name, removed, test.want)
		}
	}
}

// TestRemovalsAgainstModel compares random histories with a model that searches each resource's
// whole history. It also checks that the returned wait leads to the earliest next removal.
func TestRemovalsAgainstModel(t *testing.T) {
	for seed := range seed.Sequence(t, 200) {
		random := rand.New(rand.NewPCG(seed, 33))
		now := time.Unix(0, 0)
		var r removals
		lackedSince := map[string]time.Time{} // the model: start of the current interval
		for range 60 {
			var absent []absence
			want, earliest := map[string]bool{}, time.Duration(0)
			for _, name := range []string{"a", "b", "c"} {
				present, read := random.IntN(6) == 0, random.IntN(6) != 0
				if present || !read {
					delete(lackedSince, name)
				}
				if present {
					continue
				}
				absent = append(absent, absence{resource: name, read: read})
				if !read {
					continue
				}
				if _, ok := lackedSince[name]; !ok {
					lackedSince[name] = now
				}
				if age := now.Sub(lackedSince[name]); age >= removalDelay {
					want[name] = true
					delete(lackedSince, name) // the resource was removed or is created again
				} else if rest := removalDelay - age; earliest == 0 || rest < earliest {
					earliest = rest
				}
			}
			due, wait := r.step(now, absent)
			if !maps.Equal(due, want) || wait != earliest {
				t.Fatalf("seed %d: got %v and wait %s, want %v and %s", seed, due, wait, want, earliest)
			}
			now = now.Add(time.Duration(random.Int64N(int64(removalDelay))))
		}
	}
}
