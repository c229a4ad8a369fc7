package controllers

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// leaseDurationDefault is how long a Lease lasts that does not say, or says nonsense (0 or less).
const leaseDurationDefault = 6 * time.Second

// settledAfter is for how long clients may look for a broker at the address of its last pod: for as
// long as DNS, and what caches its answers, live by rule of thumb. A connection to where nothing is
// takes a client's whole timeout, ten seconds by default.
const settledAfter = 30 * time.Second

// sighting is what was last seen of a broker's Lease. It is a value: observe and confirm return the
// next one. The zero value is a Lease never looked at, which until.IsZero() tells.
type sighting struct {
	renewed time.Time // as the broker's clock has it
	// as ours has it: what is said of the broker's life holds until then
	until    time.Time
	duration time.Duration // of the Lease, above 0
	// it had run out at the first look, by the broker's clock; cleared by the first renewal seen
	doubtful bool
	// a broker holds it; false after an orderly stop, and then until does not matter
	held   bool
	broker placement.BrokerState // but for its life
	// uid of the pod that the incarnation runs in; "" when it does not say
	pod      string
	acquired time.Time // when the incarnation began, by its own clock
	// when we saw that it runs in another pod than before, by our clock; zero: never
	arrived time.Time

	// The process has ended, as the connection to it tells (see connections); until the Lease is
	// renewed, which proves that wrong. misjudged: it has been, of this incarnation, and the
	// connection is not asked again.
	ended, misjudged bool

	// What the API server itself said when the Lease had run out: the renewal it knew of, and that
	// there was none.
	asked     time.Time
	confirmed bool
}

// observe looks at a Lease at the time now, after before; before is the zero value at the first
// look.
//
// A broker lives for a lease duration after we saw it renew: the two clocks are not compared, or a
// broker whose clock lags would be dead for ever. Only at the first look there is nothing else to
// go by than the broker's own time.
//
// A renewal is a renewTime that differs, not one that is later: a clock that is set back renews all
// the same. Its price is that a broker which dies is up for as long as a full duration after the
// watch brought its last renewal.
func observe(before sighting, lease *coordinationv1.Lease, now time.Time) sighting {
	seen := sighting{
		until: before.until, doubtful: before.doubtful, asked: before.asked,
		confirmed: before.confirmed,
		arrived:   before.arrived,
		duration:  leaseDurationDefault,
		held:      lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "",
		broker: placement.BrokerState{Directory: lease.Annotations[v1alpha1.AnnotationDirectory],
			CleanEpoch: v1alpha1.LeaseCleanEpoch(lease.Annotations)},
		pod: lease.Annotations[v1alpha1.AnnotationPod],
	}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		seen.duration = time.Duration(*seconds) * time.Second
	}
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		seen.broker.Epoch = int64(*transitions)
	}
	seen.broker.Leaving = v1alpha1.LeaseLeaves(lease.Annotations, seen.broker.Epoch)
	if acquire := lease.Spec.AcquireTime; acquire != nil {
		seen.acquired = acquire.Time
	}
	if renew := lease.Spec.RenewTime; renew != nil {
		seen.renewed = renew.Time
	}
	if !before.until.IsZero() && seen.pod != before.pod {
		seen.arrived = now
	}
	if seen.broker.Epoch == before.broker.Epoch {
		seen.ended, seen.misjudged = before.ended, before.misjudged
	}
	switch {
	case before.until.IsZero():
		// Never longer than a duration, also if the broker's clock runs ahead.
		seen.until = now.Add(seen.duration)
		if end := seen.renewed.Add(seen.duration); end.Before(seen.until) {
			if seen.doubtful = !now.Before(end); !seen.doubtful {
				seen.until = end
			}
		}
	// Alive beyond doubt. confirmed goes: the API server's word was about the renewal before this
	// one.
	case !seen.renewed.Equal(before.renewed):
		seen.until, seen.doubtful, seen.confirmed = now.Add(seen.duration), false, false
		seen.misjudged = seen.misjudged || seen.ended
		seen.ended = false
	}
	return seen
}

// confirm takes in what the API server itself says of a Lease that ran out, as we know it from a
// watch; nil if it said nothing. The watch may be cut off, and that looks like brokers that renew
// no more; and while the API server is away, they cannot.
//
// It confirms the end if it knows of no renewal but the one that the watch brought, or the one that
// it named when it was asked last: that one has had its duration already. Any other renewal gives
// the broker a duration from now, as observe would.
//
// Two goroutines may ask at once, and the second brings the answer that the first has taken in: to
// the second it would look like the same renewal named twice. So an answer counts only while the
// question stands.
func confirm(seen sighting, lease *coordinationv1.Lease, now time.Time) sighting {
	if !seen.unsure(now) {
		return seen
	}
	if lease == nil {
		seen.until = now.Add(seen.duration) // nothing can be said against the broker
		return seen
	}
	renewed := time.Time{}
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	if renewed.Equal(seen.renewed) || renewed.Equal(seen.asked) {
		seen.confirmed = true
		return seen
	}
	seen.asked, seen.until, seen.doubtful = renewed, now.Add(seen.duration), false
	return seen
}

// unsure tells whether a Lease that somebody holds has run out, and the API server itself was not
// asked yet.
func (s sighting) unsure(now time.Time) bool {
	return s.held && !s.confirmed &&
		!now.Before(s.until)
}

// state is what is to be thought of the broker at the time now. A Lease that has run out is gone
// even if doubtful: doubt lasts one duration, in which a living broker would have renewed, and
// longer only while the API server cannot be asked.
func (s sighting) state(now time.Time) placement.BrokerState {
	state := s.broker
	if !s.arrived.IsZero() {
		state.Unsettled = max(0, s.arrived.Add(settledAfter).Sub(now))
	}
	switch {
	case !s.held || s.ended || !now.Before(s.until):
		state.Liveness = placement.Down
	case s.doubtful:
		state.Liveness = placement.Unknown
	default:
		state.Liveness = placement.Up
	}
	return state
}
