package controllers

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// leaseDurationDefault is how long a Lease lasts that does not say.
const leaseDurationDefault = 6 * time.Second

// brokerState is what an election needs to know of a broker. The zero value is a broker that nobody has seen.
type brokerState struct {
	alive     bool
	epoch     int64  // incarnation
	directory string // id of its disk; "" when it did not say
}

// sighting is what was last seen of a broker's Lease.
type sighting struct {
	renewed    time.Time // as the broker's clock has it
	aliveUntil time.Time // as ours has it
	state      brokerState
}

// observe looks at a Lease at the time now, after before; before is the zero value at the first look.
//
// A broker lives for a lease duration after we saw it renew: the two clocks are not compared, or a broker whose clock lags
// would be dead for ever. Only at the first look there is nothing else to go by than the broker's own time; a wrong verdict
// then ends with its next renewal.
func observe(before sighting, lease *coordinationv1.Lease, now time.Time) sighting {
	duration := leaseDurationDefault
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		duration = time.Duration(*seconds) * time.Second
	}
	seen := before
	if renew := lease.Spec.RenewTime; renew != nil && !renew.Time.Equal(before.renewed) {
		seen.renewed = renew.Time
		seen.aliveUntil = now.Add(duration)
		if before.renewed.IsZero() {
			// Never longer than a duration, also if the broker's clock runs ahead.
			seen.aliveUntil = earlier(renew.Add(duration), now.Add(duration))
		}
	}
	held := lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	seen.state = brokerState{
		alive:     held && now.Before(seen.aliveUntil),
		directory: lease.Annotations[v1alpha1.AnnotationDirectory],
	}
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		seen.state.epoch = int64(*transitions)
	}
	return seen
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
