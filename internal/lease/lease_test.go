package lease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// renewedAt returns a Lease with a duration of 6 s. Parameter renewed is its renewTime, by the
// holder's clock.
func renewedAt(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(6)),
		RenewTime: &metav1.MicroTime{Time: renewed},
	}}
}

func TestLeaseIsValidForItsDurationAfterAnObservedRenewal(t *testing.T) {
	type observation struct {
		elapsed    time.Duration // after noon, by the observer's clock
		holder     string
		renewed    time.Duration // after noon, by the holder's clock
		alive      bool
		unverified bool
	}
	const s = time.Second
	for name, observations := range map[string][]observation{
		"not renewed": {{0, "a", 0, true, false}, {5 * s, "a", 0, true, false},
			{6 * s, "a", 0, false, false}},
		"renewed in time": {{0, "a", 0, true, false}, {4 * s, "a", 4 * s, true, false},
			{9 * s, "a", 4 * s, true, false}},
		"expired, then renewed": {{0, "a", 0, true, false}, {9 * s, "a", 0, false, false},
			{20 * s, "a", 20 * s, true, false}},
		"released": {{0, "a", 0, true, false}, {s, "", 0, false, false}},
		"renewed before the first observation": {{0, "a", -4 * s, true, false},
			{2 * s, "a", -4 * s, false, false}},
		"expired before the first observation": {{0, "a", -time.Hour, false, true},
			{5 * s, "a", -time.Hour, false, true}, {6 * s, "a", -time.Hour, false, true}},
		"expired at the first observation, then renewed": {{0, "a", -10 * s, false, true},
			{s, "a", s, true, false}, {7 * s, "a", s, false, false}},
		"holder's clock set back": {{0, "a", 0, true, false}, {4 * s, "a", -time.Hour, true, false},
			{9 * s, "a", -time.Hour, true, false}},
		"holder's clock ahead": {{0, "a", time.Hour, true, false},
			{6 * s, "a", time.Hour, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var o Observation
			for _, step := range observations {
				now := noon.Add(step.elapsed)
				o = o.Observe(renewedAt(step.holder, noon.Add(step.renewed)), now)
				if o.Alive(now) != step.alive || o.Unverified != step.unverified {
					t.Errorf("%s after noon: got alive %t, unverified %t; want %t, %t", step.elapsed,
						o.Alive(now), o.Unverified, step.alive, step.unverified)
				}
			}
		})
	}
}

func TestDurationOfALease(t *testing.T) {
	lease := renewedAt("a", noon)
	for seconds, want := range map[int32]time.Duration{-1: Duration, 0: Duration,
		10: 10 * time.Second} {
		lease.Spec.LeaseDurationSeconds = &seconds
		if got := (Observation{}).Observe(lease, noon).Duration; got != want {
			t.Errorf("leaseDurationSeconds %d: got duration %v, want %v", seconds, got, want)
		}
	}
	lease.Spec.LeaseDurationSeconds = nil
	if got := (Observation{}).Observe(lease, noon).Duration; got != Duration {
		t.Errorf("without leaseDurationSeconds: got duration %v, want %v", got, Duration)
	}
}

func TestExtendMakesAnUnverifiedLeaseValid(t *testing.T) {
	o := Observation{}.Observe(renewedAt("a", noon.Add(-time.Hour)), noon)
	if o = o.Extend(noon); !o.Alive(noon.Add(5*time.Second)) || o.Alive(noon.Add(6*time.Second)) {
		t.Errorf("got %+v, want the Lease valid for 6 s", o)
	}
}

func TestEmptyLeaseHasNoHolder(t *testing.T) {
	o := Observation{}.Observe(&coordinationv1.Lease{}, noon)
	if o.Held || o.Alive(noon) || !o.Seen() {
		t.Errorf("got %+v, want a Lease without a holder", o)
	}
	if epoch := Epoch(&coordinationv1.Lease{}); epoch != 0 {
		t.Errorf("got epoch %d, want 0", epoch)
	}
}

func TestBrokerOfALease(t *testing.T) {
	for name, c := range map[string]struct {
		lease, label string
		id           int32
		ok           bool
	}{
		"broker":                {"main-broker-2", "main", 2, true},
		"another cluster":       {"main-broker-2", "other", 2, false},
		"without a label":       {"main-broker-2", "", 2, false},
		"not a broker's Lease":  {"operator", "main", 0, false},
		"id with leading zeros": {"main-broker-02", "main", 0, false},
	} {
		lease := &coordinationv1.Lease{}
		lease.Name = c.lease
		if c.label != "" {
			lease.Labels = map[string]string{v1alpha1.LabelCluster: c.label}
		}
		if _, id, ok := Broker(lease); ok != c.ok || id != c.id {
			t.Errorf("%s: got broker %d, %t; want %d, %t", name, id, ok, c.id, c.ok)
		}
	}
}

func TestShutdownIsAnnouncedByOneBrokerEpoch(t *testing.T) {
	lease := &coordinationv1.Lease{}
	v1alpha1.Registration{Leaving: 4}.Write(lease)
	for epoch, want := range map[int32]bool{3: false, 4: true, 5: false} {
		lease.Spec.LeaseTransitions = &epoch
		if got := Leaving(lease); got != want {
			t.Errorf("epoch %d: got leaving %t, want %t", epoch, got, want)
		}
	}
}
