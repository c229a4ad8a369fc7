package kube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/seed"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(
	seconds float64,
) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// leaseOf returns a Lease that its holder last renewed at the given time, by the holder's clock.
func leaseOf(id int32, holder string, epoch int32, renewed time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        v1alpha1.BrokerLeaseName("demo", id),
			Labels:      map[string]string{v1alpha1.LabelCluster: "demo"},
			Annotations: map[string]string{v1alpha1.AnnotationRack: "r"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: &epoch, LeaseDurationSeconds: new(int32(6)),
			RenewTime: new(metav1.NewMicroTime(renewed)),
		},
	}
	advertise(fmt.Sprintf("demo-broker-%d.demo:9092", id))(l)
	return l
}

// advertise returns a function that changes the endpoint in a Lease.
func advertise(endpoint string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		v1alpha1.ChangeRegistration(l, func(r *v1alpha1.Registration) { r.Endpoint = endpoint })
	}
}

// damage replaces all annotations of a Lease with text that is not JSON.
func damage(l *coordinationv1.Lease) {
	for name := range l.Annotations {
		l.Annotations[name] = "{"
	}
}

func ids(up map[int32]metadata.Broker) []int32 { return slices.Sorted(maps.Keys(up)) }

// TestBrokerIsAliveWhileRenewalsAreObserved checks that broker 1 is alive while broker 0 observes
// renewals of broker 1's Lease. Broker 0 renews its own Lease all the time.
func TestBrokerIsAliveWhileRenewalsAreObserved(t *testing.T) {
	l := liveness{self: metadata.Broker{ID: 0, Epoch: 5, Endpoints: "kafka://me:9092"}}
	behind := -time.Hour // the clock of broker 1 is an hour behind
	for _, step := range []struct {
		now     float64
		lease   *coordinationv1.Lease
		up      []int32
		because string
	}{
		{0, nil, []int32{0}, "no other broker is known"},
		{1, leaseOf(1, "a", 1, at(0)), []int32{0, 1}, "the first observed lease was renewed recently"},
		{5.9, leaseOf(1, "a", 1, at(0)), []int32{0, 1},
			"by broker 1's clock the lease is still valid"},
		{6, leaseOf(1, "a", 1, at(0)), []int32{0}, "the lease expired"},
		{7, leaseOf(1, "b", 2, at(7).Add(behind)), []int32{0, 1},
			"a renewal was observed, so broker 1's clock is ignored"},
		{12.9, leaseOf(1, "b", 2, at(7).Add(behind)), []int32{0, 1},
			"less than six seconds since the observed renewal"},
		{13, leaseOf(1, "b", 2, at(7).Add(behind)), []int32{0},
			"six seconds since the observed renewal"},
		{14, leaseOf(1, "b", 2, at(14).Add(behind)), []int32{0, 1}, "renewed"},
		{15, leaseOf(1, "", 2, at(14).Add(behind)), []int32{0}, "released"},
		{16, leaseOf(1, "c", 3, at(16).Add(behind)), []int32{0, 1}, "restarted"},
		{17, nil, []int32{0}, "the lease was deleted"},
	} {
		var leases []*coordinationv1.Lease
		if step.lease != nil {
			leases = append(leases, step.lease)
		}
		l.observe(leases, at(step.now), at(step.now))
		if up := ids(l.brokers(at(step.now))); !slices.Equal(up, step.up) {
			t.Errorf("at %v s brokers %v are alive, want %v: %s", step.now, up, step.up,
				step.because)
		}
	}
}

func TestLeaseThatExpiredBeforeTheFirstObservation(t *testing.T) {
	l := liveness{self: metadata.Broker{ID: 0}}
	l.observe([]*coordinationv1.Lease{leaseOf(1, "a", 1, at(-100)), leaseOf(2, "a", 1, at(+100))},
		at(0), at(0))
	if up := ids(l.brokers(at(0))); !slices.Equal(up, []int32{0, 2}) {
		t.Errorf("got alive brokers %v, want 0 and 2: the lease of 1 expired long ago", up)
	}
	if up := ids(l.brokers(at(6))); !slices.Equal(up, []int32{0}) {
		t.Errorf("got alive brokers %v, want 0: a clock that is ahead must not extend a lease", up)
	}
}

// TestNoLeaseExpiresDuringAnOutage checks that broker 1's Lease expires neither while broker 0
// cannot renew its own Lease, nor within one lease duration after the outage. A released Lease must
// not be extended.
func TestNoLeaseExpiresDuringAnOutage(t *testing.T) {
	l := liveness{self: metadata.Broker{ID: 0}}
	held, released := leaseOf(1, "a", 1, at(0)), leaseOf(2, "", 1, at(0))
	leases := []*coordinationv1.Lease{held, released}
	expect := func(now float64, renewed float64, want ...int32) {
		t.Helper()
		l.observe(leases, at(renewed), at(now))
		if up := ids(l.brokers(at(now))); !slices.Equal(up, want) {
			t.Errorf("at %v s, own lease renewed at %v s: brokers %v are alive, want %v", now,
				renewed, up, want)
		}
	}
	expect(0, 0, 0, 1)
	expect(2, 2, 0, 1)
	expect(5.5, 2, 0, 1) // the outage is detected
	expect(60, 2, 0, 1)
	expect(61, 61, 0, 1) // the outage has ended
	expect(63, 63, 0, 1)
	expect(66.9, 66, 0, 1)
	expect(67, 67, 0) // broker 1 has not renewed its Lease after the outage
}

// TestNoLeaseExpiresWhileTheWatchIsBehind checks that no Lease expires while the watch delivers no
// renewals, not even of broker 0's own Lease, although broker 0 renews its Lease all the time. The
// watch resumes after 31 s.
func TestNoLeaseExpiresWhileTheWatchIsBehind(t *testing.T) {
	l := liveness{self: metadata.Broker{ID: 0, Epoch: 5}}
	expect := func(now, own, other float64, want ...int32) {
		t.Helper()
		leases := []*coordinationv1.Lease{leaseOf(0, "a", 5, at(own)),
			leaseOf(1, "a", 1, at(other))}
		l.observe(leases, at(now), at(now)) // as if broker 0 had just renewed its own Lease
		if up := ids(l.brokers(at(now))); !slices.Equal(up, want) {
			t.Errorf(
				"at %v s, the watch has delivered the own renewal of %v s and broker 1's of %v s: brokers %v are alive, want %v",
				now,
				own,
				other,
				up,
				want,
			)
		}
	}
	expect(0, 0, 0, 0, 1)
	expect(2, 2, 2, 0, 1)
	expect(9, 2, 2, 0, 1)
	expect(30, 2, 2, 0, 1)
	expect(31, 30, 2, 0, 1) // The watch resumes, and broker 1 gets time to renew its Lease.
	expect(36, 36, 2, 0, 1)
	expect(37, 36, 2, 0)
}

// TestOutageMayBeginAtAnyTime checks that no Lease expires during an outage that begins at a random
// time between two brokers' renewals.
func TestOutageMayBeginAtAnyTime(t *testing.T) {
	for seed := range seed.Sequence(t, 500) {
		random := rand.New(rand.NewPCG(seed, 6))
		interval := lease.RenewInterval.Seconds()
		l := liveness{self: metadata.Broker{ID: 0}}
		// These are the times of the brokers' first renewals. Further renewals follow at regular
		// intervals.
		ours, theirs := random.Float64()*interval, random.Float64()*interval
		begins := 10 + random.Float64()*10
		lastOf := func(phase, now float64) float64 {
			now = min(now, begins)
			return phase + float64(int((now-phase)/interval))*interval
		}
		for now := 3.0; now < begins+30; now += 0.05 {
			l.observe([]*coordinationv1.Lease{leaseOf(1, "a", 1, at(lastOf(theirs, now)))},
				at(lastOf(ours, now)), at(now))
			if _, up := l.brokers(at(now))[1]; !up {
				t.Fatalf(
					"seed %d: broker 1 is not alive %.2f s after the outage began",
					seed,
					now-begins,
				)
			}
		}
	}
}

func TestNextIsTheNextExpiry(t *testing.T) {
	l := liveness{self: metadata.Broker{ID: 0}}
	if got := l.next(at(0)); got != lease.Duration {
		t.Errorf("without other brokers: got next %s", got)
	}
	l.observe([]*coordinationv1.Lease{leaseOf(1, "a", 1, at(-2)), leaseOf(2, "a", 1, at(-5)),
		leaseOf(3, "", 1, at(-5.5))}, at(0), at(0))
	if got := l.next(at(0)); got != time.Second {
		t.Errorf("got next %s, want 1s, when the lease of broker 2 expires", got)
	}
}

func TestLeaseBroker(t *testing.T) {
	got, ok := leaseBroker(leaseOf(7, "a", 9, at(0)))
	want := metadata.Broker{ID: 7, Epoch: 9, Endpoints: "kafka://demo-broker-7.demo:9092",
		Rack:       "r",
		CleanEpoch: -1}
	if !ok || got != want {
		t.Errorf("got broker %+v, ok %t, want %+v", got, ok, want)
	}
	for name, spoil := range map[string]func(*coordinationv1.Lease){
		"another name":       func(l *coordinationv1.Lease) { l.Name = "leader-election" },
		"another cluster":    func(l *coordinationv1.Lease) { l.Labels[v1alpha1.LabelCluster] = "other" },
		"id is not a number": func(l *coordinationv1.Lease) { l.Name = "demo-broker-x" },
		"no id":              func(l *coordinationv1.Lease) { l.Name = "demo-broker-" },
		"leading zero":       func(l *coordinationv1.Lease) { l.Name = "demo-broker-07" },
		"negative id":        func(l *coordinationv1.Lease) { l.Name = "demo-broker--1" },
		"no endpoint":        func(l *coordinationv1.Lease) { l.Annotations = nil },
		"no port":            advertise("host"),
		"port 0":             advertise("host:0"),
		"no host":            advertise(":9092"),
		"not JSON":           damage,
	} {
		lease := leaseOf(7, "a", 9, at(0))
		spoil(lease)
		if got, ok := leaseBroker(lease); ok {
			t.Errorf("%s: accepted as broker %+v", name, got)
		}
	}
}

// TestInvalidRegistrationIsReported checks that a broker whose Lease has an invalid registration is
// not alive, and that the error names the Lease. The error must disappear once the broker has
// written the Lease again.
func TestInvalidRegistrationIsReported(t *testing.T) {
	l := liveness{self: metadata.Broker{ID: 0, Epoch: 5, Endpoints: "kafka://me:9092"}}
	damaged := leaseOf(1, "a", 1, at(0))
	damage(damaged)
	leases := []*coordinationv1.Lease{damaged, leaseOf(2, "a", 1, at(0))}
	l.observe(leases, at(1), at(1))
	if got := ids(l.brokers(at(1))); !slices.Equal(got, []int32{0, 2}) || len(l.invalid) != 1 ||
		!strings.Contains(l.invalid[0].Error(), "lease demo-broker-1") {
		t.Errorf("got brokers %v, errors %v", got, l.invalid)
	}
	leases[0] = leaseOf(1, "a", 1, at(2))
	l.observe(leases, at(2), at(2))
	if got := ids(l.brokers(at(2))); !slices.Equal(got, []int32{0, 1, 2}) || len(l.invalid) != 0 {
		t.Errorf("after another write: got brokers %v, errors %v", got, l.invalid)
	}
}
