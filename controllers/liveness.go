package controllers

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// leaseDurationDefault is how long a Lease lasts that does not say.
const leaseDurationDefault = 6 * time.Second

// life is what is known of a broker's being up.
type life int

const (
	// gone: it stopped, its Lease ran out, or it was never there.
	gone life = iota
	// doubtful: its Lease had run out when we first looked. That may be a broker long dead, or one that could not renew while
	// the API server was away, as we could not watch. It keeps what it leads and is given nothing, until we know.
	doubtful
	// up: it was seen to renew its Lease.
	up
)

// brokerState is what an election needs to know of a broker. The zero value is a broker that nobody has seen.
type brokerState struct {
	life      life
	epoch     int64  // incarnation
	directory string // id of its disk; "" when it did not say
}

// sighting is what was last seen of a broker's Lease.
type sighting struct {
	renewed  time.Time // as the broker's clock has it
	until    time.Time // as ours has it: what is said of the broker's life holds until then
	duration time.Duration
	doubtful bool
	held     bool
	broker   brokerState // but for its life

	// What the API server itself said when the Lease had run out: the renewal it knew of, and that there was none.
	asked     time.Time
	confirmed bool
}

// observe looks at a Lease at the time now, after before; before is the zero value at the first look.
//
// A broker lives for a lease duration after we saw it renew: the two clocks are not compared, or a broker whose clock lags
// would be dead for ever. Only at the first look there is nothing else to go by than the broker's own time.
func observe(before sighting, lease *coordinationv1.Lease, now time.Time) sighting {
	seen := sighting{
		until: before.until, doubtful: before.doubtful, asked: before.asked, confirmed: before.confirmed,
		duration: leaseDurationDefault,
		held:     lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "",
		broker:   brokerState{directory: lease.Annotations[v1alpha1.AnnotationDirectory]},
	}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		seen.duration = time.Duration(*seconds) * time.Second
	}
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		seen.broker.epoch = int64(*transitions)
	}
	if renew := lease.Spec.RenewTime; renew != nil {
		seen.renewed = renew.Time
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
	case !seen.renewed.Equal(before.renewed):
		seen.until, seen.doubtful, seen.confirmed = now.Add(seen.duration), false, false
	}
	return seen
}

// confirm takes in what the API server itself says of a Lease that ran out, as we know it from a watch; nil if it said nothing.
// The watch may be cut off, and that looks like brokers that renew no more; and while the API server is away, they cannot.
func confirm(seen sighting, lease *coordinationv1.Lease, now time.Time) sighting {
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

// unsure tells whether a Lease that somebody holds has run out, and the API server itself was not asked yet.
func (s sighting) unsure(now time.Time) bool { return s.held && !s.confirmed && !now.Before(s.until) }

// state is what is to be thought of the broker at the time now.
func (s sighting) state(now time.Time) brokerState {
	state := s.broker
	switch {
	case !s.held || !now.Before(s.until):
		state.life = gone
	case s.doubtful:
		state.life = doubtful
	default:
		state.life = up
	}
	return state
}
