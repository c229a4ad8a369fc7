package brokerstate

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// leaseAt returns a Lease with a duration of 6 s. renewed is its renewTime, by the broker's clock.
func leaseAt(holder string, renewed time.Time, transitions int32) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(6)),
			RenewTime: &metav1.MicroTime{Time: renewed}, LeaseTransitions: &transitions,
		},
	}
	v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) { r.Directory = "disk-a" })
	return lease
}

// runIn records in a Lease that the broker runs in the given pod.
func runIn(lease *coordinationv1.Lease, pod string) {
	v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) { r.Pod = pod })
}

func TestLivenessFollowsTheLease(t *testing.T) {
	type step struct {
		after    time.Duration // since noon, by the operator's clock
		holder   string
		renewed  time.Duration // since noon, by the broker's clock
		liveness placement.Liveness
	}
	const s = time.Second
	const up, unknown, down = placement.Up, placement.Unknown, placement.Down
	for name, steps := range map[string][]step{
		"not renewed": {{0, "a", 0, up}, {5 * s, "a", 0, up},
			{6 * s, "a", 0, down}},
		"renewed in time": {{0, "a", 0, up}, {4 * s, "a", 4 * s, up},
			{9 * s, "a", 4 * s, up}},
		"expired, then renewed": {{0, "a", 0, up}, {9 * s, "a", 0, down},
			{20 * s, "a", 20 * s, up}},
		"released":                             {{0, "a", 0, up}, {s, "", 0, down}},
		"renewed before the first observation": {{0, "a", -4 * s, up}, {2 * s, "a", -4 * s, down}},
		"expired long before the first observation": {{0, "a", -time.Hour, unknown},
			{5 * s, "a", -time.Hour, unknown}, {6 * s, "a", -time.Hour, down}},
		"expired at the first observation, then renewed": {{0, "a", -10 * s, unknown},
			{s, "a", s, up}, {7 * s, "a", s, down}},
		"broker's clock a minute behind": {{0, "a", -60 * s, unknown}, {2 * s, "a", -58 * s, up},
			{7 * s, "a", -58 * s, up},
			{8 * s, "a", -58 * s, down}},
		"broker's clock a minute ahead": {{0, "a", 60 * s, up}, {5 * s, "a", 60 * s, up},
			{6 * s, "a", 60 * s, down}},
		"broker's clock set back": {{0, "a", 0, up}, {2 * s, "a", -time.Hour, up},
			{7 * s, "a", -time.Hour, up}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen observation
			for _, step := range steps {
				now := noon.Add(step.after)
				seen = seen.observe(leaseAt(step.holder, noon.Add(step.renewed), 3), now)
				if got := seen.state(now).Liveness; got != step.liveness {
					t.Errorf("%s after noon: liveness %d, want %d", step.after, got, step.liveness)
				}
			}
		})
	}
}

func TestStateHasEpochAndDirectoryOfTheLease(t *testing.T) {
	lease := leaseAt("a", noon, 7)
	v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) { r.BootEpoch = 5 })
	seen := observation{}.observe(lease, noon)
	if want := (placement.BrokerState{Liveness: placement.Up, Epoch: 7, CleanEpoch: -1,
		BootEpoch: 5, Directory: "disk-a"}); seen.state(noon) != want {
		t.Errorf("got state %+v, want %+v", seen.state(noon), want)
	}
}

// TestAddressIsStaleAfterAPodChange checks that a broker's address is stale for addressStaleFor
// after the broker started in a different pod. A restart of the container does not make the address
// stale, and neither does the first observed pod.
func TestAddressIsStaleAfterAPodChange(t *testing.T) {
	in := func(pod string, after time.Duration, transitions int32) *coordinationv1.Lease {
		lease := leaseAt("a", noon.Add(after), transitions)
		runIn(lease, pod)
		return lease
	}
	seen := observation{}.observe(in("first", 0, 1), noon)
	for _, step := range []struct {
		pod      string
		after    time.Duration
		epoch    int32
		staleFor time.Duration
	}{
		{"first", 2 * time.Second, 1, 0},
		{"first", 4 * time.Second, 2, 0}, // another broker epoch in the same pod
		{"second", 5 * time.Second, 3, addressStaleFor},
		{"second", 15 * time.Second, 3, addressStaleFor - 10*time.Second},
		{"second", 5*time.Second + addressStaleFor, 3, 0},
	} {
		now := noon.Add(step.after)
		seen = seen.observe(in(step.pod, step.after, step.epoch), now)
		if got := seen.state(now).AddressStaleFor; got != step.staleFor {
			t.Errorf("%s after noon, in pod %s: address stale for %s, want %s", step.after, step.pod,
				got, step.staleFor)
		}
	}
}

func TestEmptyLeaseIsABrokerThatIsDown(t *testing.T) {
	if seen := (observation{}).observe(&coordinationv1.Lease{},
		noon); seen.state(noon) != (placement.BrokerState{CleanEpoch: -1}) {
		t.Errorf("empty lease: got state %+v, want a broker that is down", seen.state(noon))
	}
}

// TestExpiryIsConfirmedByTheAPIServer checks an expired Lease: the watch delivered a Lease renewed
// at noon, which expires 6 s later. Each case then reads the Lease from the API server, whose
// answer decides whether the broker is down.
func TestExpiryIsConfirmedByTheAPIServer(t *testing.T) {
	expiry := noon.Add(6 * time.Second)
	known := observation{}.observe(leaseAt("a", noon, 3), noon)
	if known.needsConfirmation(noon) || !known.needsConfirmation(expiry) {
		t.Fatalf("needs confirmation: at noon %t, when the lease expires %t; want false, true",
			known.needsConfirmation(noon), known.needsConfirmation(expiry))
	}
	t.Run("no later renewal", func(t *testing.T) {
		seen := known.confirm(leaseAt("a", noon, 3), expiry)
		if seen.state(expiry).Liveness != placement.Down || seen.needsConfirmation(expiry) {
			t.Errorf("got %+v, want down and confirmed", seen)
		}
		renewed := seen.observe(leaseAt("a", expiry, 3), expiry)
		if renewed.state(expiry).Liveness != placement.Up ||
			!renewed.needsConfirmation(expiry.Add(6*time.Second)) {
			t.Errorf("after a renewal: got %+v, want up, and a confirmation needed at the next expiry", renewed)
		}
	})
	t.Run("API server unavailable", func(t *testing.T) {
		seen := known.confirm(nil, expiry)
		if seen.state(expiry).Liveness != placement.Up ||
			!seen.needsConfirmation(expiry.Add(6*time.Second)) {
			t.Errorf("got %+v, want up until the next expiry", seen)
		}
	})
	t.Run("a renewal that the watch has not delivered", func(t *testing.T) {
		renewed := leaseAt("a", noon.Add(4*time.Second), 3)
		seen := known.confirm(renewed, expiry)
		if seen.state(expiry).Liveness != placement.Up {
			t.Errorf("got %+v, want up after the new renewal", seen)
		}
		later := expiry.Add(6 * time.Second)
		// The watch still delivers the earlier renewal.
		seen = seen.observe(leaseAt("a", noon, 3), later)
		if seen = seen.confirm(renewed, later); seen.state(later).Liveness != placement.Down {
			t.Errorf("the renewal extended the Lease twice: got %+v, want down", seen)
		}
	})
	t.Run("two goroutines read the same renewal", func(t *testing.T) {
		renewed := leaseAt("a", noon.Add(4*time.Second), 3)
		seen := known.confirm(renewed, expiry).confirm(renewed, expiry)
		later := expiry.Add(6 * time.Second)
		if seen.state(expiry).Liveness != placement.Up || !seen.needsConfirmation(later) {
			t.Errorf("got %+v, want up, and another read needed at %v", seen, later)
		}
	})
}
