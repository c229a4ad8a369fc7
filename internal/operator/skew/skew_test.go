package skew

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

var now = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// all returns brokers that run the same version and support the given levels.
func all(version string, levels ...int32) (brokers []Broker) {
	for _, level := range levels {
		brokers = append(brokers, Broker{version, level})
	}
	return brokers
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want Decision
	}{
		"new":              {Input{}, Decision{Level: 1}},
		"not registered":   {Input{Brokers: all("", 0, 2)}, Decision{Level: 1}},
		"one version":      {Input{Brokers: all("dev", 1, 1)}, Decision{Level: 1}},
		"mixed":            {Input{Level: 1, Brokers: all("dev", 1, 2)}, Decision{Level: 1}},
		"first after roll": {Input{Level: 1, Brokers: all("dev", 2, 2)}, Decision{Level: 1, RaiseAt: now.Add(RaiseAfter)}},
		"within a day": {Input{Level: 1, Brokers: all("dev", 2, 2), RaiseAt: now.Add(time.Hour)},
			Decision{Level: 1, RaiseAt: now.Add(time.Hour)}},
		"downgraded within a day": {Input{Level: 1, Brokers: all("dev", 2, 1),
			RaiseAt: now.Add(time.Hour)}, Decision{Level: 1}},
		"after a day": {Input{Level: 1, Brokers: all("dev", 3, 2), RaiseAt: now},
			Decision{Level: 2}},
		"updated again within the day": {Input{Level: 1, Brokers: all("dev", 3, 3), RaiseAt: now},
			Decision{Level: 2, RaiseAt: now.Add(RaiseAfter)}},
		"specified":   {Input{Level: 1, Brokers: all("dev", 3, 3), Spec: 2}, Decision{Level: 2}},
		"kept":        {Input{Level: 1, Brokers: all("dev", 3, 3), Spec: 1}, Decision{Level: 1}},
		"too high":    {Input{Level: 1, Brokers: all("dev", 2, 2), Spec: 3}, Decision{Level: 2, Kind: Refused}},
		"lowered":     {Input{Level: 2, Brokers: all("dev", 2, 2), Spec: 1}, Decision{Level: 2, Kind: Refused}},
		"unsupported": {Input{Level: 2, Brokers: all("dev", 2, 1)}, Decision{Level: 2, Kind: Unsupported, Brokers: []int32{1}}},
		"same minor":  {Input{Operator: "v1.4.0", Brokers: all("v1.4.7", 1)}, Decision{Level: 1}},
		"two behind":  {Input{Operator: "v1.4.0", Brokers: all("v1.2.0", 1)}, Decision{Level: 1}},
		"three behind": {Input{Operator: "v1.4.0", Brokers: all("v1.1.0", 1)},
			Decision{Level: 1, Kind: Behind, Brokers: []int32{0}}},
		"major behind": {Input{Operator: "v2.0.0", Brokers: all("v1.9.0", 1)},
			Decision{Level: 1, Kind: Behind, Brokers: []int32{0}}},
		"ahead": {Input{Operator: "v1.4.0", Brokers: append(all("v1.4.0", 1), all("v1.5.0", 1)...)},
			Decision{Level: 1, Kind: Ahead, Brokers: []int32{1}}},
	} {
		c.in.Now = now
		got := Decide(c.in)
		if got.Level != c.want.Level || !got.RaiseAt.Equal(c.want.RaiseAt) {
			t.Errorf("%s: got level %d, raised at %s, want %d at %s", name, got.Level, got.RaiseAt,
				c.want.Level, c.want.RaiseAt)
		}
		if got.Kind != c.want.Kind || !slices.Equal(got.Brokers, c.want.Brokers) {
			t.Errorf("%s: got skew %v of brokers %v, want %v of %v", name, got.Kind, got.Brokers,
				c.want.Kind, c.want.Brokers)
		}
		if got.Message == "" {
			t.Errorf("%s: got %+v, want a message", name, got)
		}
	}
}

// TestLevelIsSupportedWhenItRises checks that the level never decreases, and that all brokers
// support it when it rises.
func TestLevelIsSupportedWhenItRises(t *testing.T) {
	for seed := range seed.Sequence(t, 200) {
		random := rand.New(rand.NewPCG(seed, 1))
		in := Input{Now: now, Brokers: make([]Broker, 1+random.IntN(4))}
		for range 100 {
			in.Now = in.Now.Add(time.Duration(random.IntN(20)) * time.Hour)
			in.Brokers[random.IntN(len(in.Brokers))].Level = int32(random.IntN(4))
			in.Spec = max(0, int32(random.IntN(8))-4)
			d := Decide(in)
			if d.Level < in.Level || d.Level > max(in.Level, 1) && d.Level > in.supported() {
				t.Fatalf("seed %d: %+v gives %+v", seed, in, d)
			}
			in.Level, in.RaiseAt = d.Level, d.RaiseAt
		}
	}
}
