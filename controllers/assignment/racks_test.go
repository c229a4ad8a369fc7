package assignment

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

func TestNewPartitionsWaitForRacks(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	east, west := brokerRack{name: "east", known: true}, brokerRack{name: "west", known: true}
	none := brokerRack{known: true}
	for name, test := range map[string]struct {
		racks racks
		age   time.Duration // time since the first broker registered
		want  time.Duration
	}{
		"no broker has registered": {racks{}, time.Hour, racksPoll},
		"one is missing": {racks{map[int32]brokerRack{0: east, 1: west}, start}, time.Second,
			racksPoll},
		"one is not read yet": {racks{map[int32]brokerRack{0: east, 1: {}, 2: west}, start},
			time.Second, racksPoll},
		"all are known": {racks{map[int32]brokerRack{0: east, 1: east, 2: west}, start},
			time.Second, 0},
		"one has none": {racks{map[int32]brokerRack{1: none}, start}, time.Second, 0},
		"shortly before the end": {racks{map[int32]brokerRack{0: east}, start},
			racksWait - time.Second, time.Second},
		"after the end": {racks{map[int32]brokerRack{0: east}, start}, racksWait, 0},
		"the operator's clock is behind": {racks{map[int32]brokerRack{0: east}, start},
			-clockSkew, racksPoll},
		"the operator's clock is far behind": {racks{map[int32]brokerRack{0: east}, start},
			-clockSkew - 1, 0},
		"a broker that is being removed": {racks{map[int32]brokerRack{0: east, 1: east, 2: west,
			3: {}}, start}, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.racks.awaited(3, start.Add(test.age)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestOnlyPartitionsWithAChoiceWait checks that some partitions are assigned at once while racks
// are unknown: partitions with one replica, with a replica on every broker, or with given replicas.
func TestOnlyPartitionsWithAChoiceWait(t *testing.T) {
	w := newWorld(3, 4)
	w.in.racksAwaited = racksPoll
	w.topic("single", 1, 1)
	w.topic("everywhere", 1, 3)
	given := w.topic("given", 2, 2)
	given.Spec.InitialReplicas = []v1alpha1.InitialReplicas{{Replicas: []int32{2, 1}}}
	if p := w.pass(); !p.waits {
		t.Error("the second partition of topic given does not wait")
	}
	got := w.texts()
	if len(got) != 3 || got["given/0"] != "2,1" || got["given/1"] != "" {
		t.Errorf("got %v, want all but given/1", got)
	}
	w.in.racksAwaited = 0
	w.in.racks = map[int32]brokerRack{0: {"east", true}, 1: {"east", true}, 2: {"west", true}}
	if p := w.pass(); p.waits {
		t.Error("a partition waits, although the racks are known")
	}
	last := w.in.sets.Get(partitionset.Key{Topic: "given", Index: 1}).Assignment
	if last == nil || last.Replicas[0] != 2 && last.Replicas[1] != 2 {
		t.Errorf("got %+v, want a replica on broker 2, the only one in rack west", last)
	}
	w.expect(t, w.texts())
}
