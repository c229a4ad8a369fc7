package controllers

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// leaseAt is a Lease of 6 s, renewed at the time that the broker's clock shows.
func leaseAt(holder string, renewed time.Time, transitions int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{v1alpha1.AnnotationDirectory: "disk-a"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(6)),
			RenewTime: &metav1.MicroTime{Time: renewed}, LeaseTransitions: &transitions,
		},
	}
}

func TestABrokerLivesForALeaseAfterItWasSeenToRenew(t *testing.T) {
	type look struct {
		at      time.Duration // after noon, our clock
		holder  string
		renewed time.Duration // after noon, the broker's clock
		life    placement.Liveness
	}
	const s = time.Second
	const up, doubtful, gone = placement.Up, placement.Unknown, placement.Down
	for name, looks := range map[string][]look{
		"renewed, then silent": {{0, "a", 0, up}, {5 * s, "a", 0, up},
			{6 * s, "a", 0, gone}},
		"renewed in time": {{0, "a", 0, up}, {4 * s, "a", 4 * s, up},
			{9 * s, "a", 4 * s, up}},
		"silent, then back": {{0, "a", 0, up}, {9 * s, "a", 0, gone},
			{20 * s, "a", 20 * s, up}},
		"stopped in order":         {{0, "a", 0, up}, {s, "", 0, gone}},
		"renewed before we looked": {{0, "a", -4 * s, up}, {2 * s, "a", -4 * s, gone}},
		"long dead at the first look": {{0, "a", -time.Hour, doubtful},
			{5 * s, "a", -time.Hour, doubtful}, {6 * s, "a", -time.Hour, gone}},
		"late at the first look": {{0, "a", -10 * s, doubtful}, {s, "a", s, up},
			{7 * s, "a", s, gone}},
		"its clock lags a minute": {{0, "a", -60 * s, doubtful}, {2 * s, "a", -58 * s, up},
			{7 * s, "a", -58 * s, up},
			{8 * s, "a", -58 * s, gone}},
		"its clock leads a minute": {{0, "a", 60 * s, up}, {5 * s, "a", 60 * s, up},
			{6 * s, "a", 60 * s, gone}},
		"its clock is set back": {{0, "a", 0, up}, {2 * s, "a", -time.Hour, up},
			{7 * s, "a", -time.Hour, up}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen sighting
			for _, look := range looks {
				now := noon.Add(look.at)
				seen = observe(seen, leaseAt(look.holder, noon.Add(look.renewed), 3), now)
				if got := seen.state(now).Liveness; got != look.life {
					t.Errorf("%s after noon: life %d, want %d", look.at, got, look.life)
				}
			}
		})
	}
}

func TestASightingTellsIncarnationAndDisk(t *testing.T) {
	seen := observe(sighting{}, leaseAt("a", noon, 7), noon)
	if want := (placement.BrokerState{Liveness: placement.Up, Epoch: 7, CleanEpoch: -1,
		Directory: "disk-a"}); seen.state(noon) != want {
		t.Errorf("state %+v, want %+v", seen.state(noon), want)
	}
}

// A broker whose pod is another one has another address: clients look for it at the old one for a
// while. One that was there at the first look may have been so for long.
func TestABrokerIsUnsettledInANewPod(t *testing.T) {
	in := func(pod string, at time.Duration, transitions int32) *coordinationv1.Lease {
		lease := leaseAt("a", noon.Add(at), transitions)
		lease.Annotations[v1alpha1.AnnotationPod] = pod
		return lease
	}
	seen := observe(sighting{}, in("first", 0, 1), noon)
	for _, look := range []struct {
		pod       string
		at        time.Duration
		epoch     int32
		unsettled time.Duration
	}{
		{"first", 2 * time.Second, 1, 0},
		{"first", 4 * time.Second, 2, 0}, // its container alone was started again
		{"second", 5 * time.Second, 3, settledAfter},
		{"second", 15 * time.Second, 3, settledAfter - 10*time.Second},
		{"second", 5*time.Second + settledAfter, 3, 0},
	} {
		now := noon.Add(look.at)
		seen = observe(seen, in(look.pod, look.at, look.epoch), now)
		if got := seen.state(now).Unsettled; got != look.unsettled {
			t.Errorf("%s after noon, in pod %s: unsettled for %s, want %s", look.at, look.pod, got,
				look.unsettled)
		}
	}
}

func TestALeaseThatSaysNothingIsNoBroker(t *testing.T) {
	if seen := observe(sighting{}, &coordinationv1.Lease{},
		noon); seen.state(noon) != (placement.BrokerState{CleanEpoch: -1}) {
		t.Errorf("state %+v of an empty lease", seen.state(noon))
	}
}

// TestTheWatchAloneProvesNoDeath: noon plus 6 s the Lease has run out as far as the watch tells;
// then the API server is asked.
func TestTheWatchAloneProvesNoDeath(t *testing.T) {
	late := noon.Add(6 * time.Second)
	known := observe(sighting{}, leaseAt("a", noon, 3), noon)
	if known.unsure(noon) || !known.unsure(late) {
		t.Fatalf("unsure at noon %v, when the lease ran out %v", known.unsure(noon),
			known.unsure(late))
	}
	t.Run("it knows of no renewal", func(t *testing.T) {
		seen := confirm(known, leaseAt("a", noon, 3), late)
		if seen.state(late).Liveness != placement.Down || seen.unsure(late) {
			t.Errorf("%+v", seen)
		}
		back := observe(seen, leaseAt("a", late, 3), late)
		if back.state(late).Liveness != placement.Up || !back.unsure(late.Add(6*time.Second)) {
			t.Errorf("back: %+v", back)
		}
	})
	t.Run("it cannot be reached", func(t *testing.T) {
		seen := confirm(known, nil, late)
		if seen.state(late).Liveness != placement.Up || !seen.unsure(late.Add(6*time.Second)) {
			t.Errorf("%+v", seen)
		}
	})
	t.Run("it knows of a renewal that the watch did not bring", func(t *testing.T) {
		renewed := leaseAt("a", noon.Add(4*time.Second), 3)
		seen := confirm(known, renewed, late)
		if seen.state(late).Liveness != placement.Up {
			t.Errorf("%+v", seen)
		}
		later := late.Add(6 * time.Second)
		seen = observe(seen, leaseAt("a", noon, 3), later) // the watch is stuck still
		if seen = confirm(seen, renewed, later); seen.state(later).Liveness != placement.Down {
			t.Errorf("the same renewal counted twice: %+v", seen)
		}
	})
	t.Run("two goroutines asked, and got the same answer", func(t *testing.T) {
		renewed := leaseAt("a", noon.Add(4*time.Second), 3)
		seen := confirm(confirm(known, renewed, late), renewed, late)
		later := late.Add(6 * time.Second)
		if seen.state(late).Liveness != placement.Up || !seen.unsure(later) {
			t.Errorf("it would be gone at %v without being asked again: %+v", later, seen)
		}
	})
}
