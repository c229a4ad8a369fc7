package brokerstate

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/placement"
)

// addressStaleFor is how long clients may still use the address of a broker's previous pod: about
// as long as DNS and its caches keep an answer. A connection attempt to an address without a
// listener costs a client its whole timeout, 10 s by default.
const addressStaleFor = 30 * time.Second

// observation is the knowledge about one broker from its Lease. It is a value; observe and confirm
// return the next one. The zero value is a Lease that has not been observed.
type observation struct {
	lease.Observation
	broker placement.BrokerState // without its liveness
	// pod is the uid of the pod that the broker runs in, "" if the Lease does not name one.
	pod      string
	acquired time.Time // when the broker epoch acquired the Lease, by the broker's clock
	// podChanged is when the broker was observed in another pod than before, by our clock; zero if
	// it never was.
	podChanged time.Time

	// exited reports that the connection to the broker proved the exit of its process. The next
	// renewal of the Lease refutes it. exitRefuted reports that this has happened in this broker
	// epoch, so a later report of the connection is ignored.
	exited, exitRefuted bool

	// confirmed reports that the API server confirmed the expiry of the Lease. liveRenewed is the
	// renewTime that the API server returned when it was last read.
	confirmed   bool
	liveRenewed time.Time
}

// observe returns the observation after the watch delivered a Lease, at the time now.
func (o observation) observe(current *coordinationv1.Lease, now time.Time) observation {
	next := observation{
		Observation: o.Observe(current, now),
		broker: placement.BrokerState{
			Epoch:      lease.Epoch(current),
			Directory:  current.Annotations[v1alpha1.AnnotationDirectory],
			CleanEpoch: v1alpha1.LeaseCleanEpoch(current.Annotations),
			Leaving:    lease.Leaving(current),
		},
		pod: current.Annotations[v1alpha1.AnnotationPod], podChanged: o.podChanged,
		confirmed: o.confirmed, liveRenewed: o.liveRenewed,
	}
	if acquire := current.Spec.AcquireTime; acquire != nil {
		next.acquired = acquire.Time
	}
	if o.Seen() && next.pod != o.pod {
		next.podChanged = now
	}
	if next.broker.Epoch == o.broker.Epoch {
		next.exited, next.exitRefuted = o.exited, o.exitRefuted
	}
	if o.Seen() && !next.Renewed.Equal(o.Renewed) {
		// The broker is alive. The confirmation was about the previous renewal.
		next.confirmed = false
		next.exitRefuted = next.exitRefuted || next.exited
		next.exited = false
	}
	return next
}

// confirm returns the observation after an expired Lease was read from the API server itself; live
// is nil if the API server did not answer. The watch may be cut off, which looks like brokers that
// have stopped renewing, and brokers cannot renew while the API server is unavailable.
//
// The read confirms the expiry if the API server holds the renewal that the watch delivered, or the
// one that the previous read returned: that renewal has already had its full duration. Any other
// renewal extends the Lease by one duration, as observe would.
//
// Two goroutines may read at the same time. The second read returns the renewal that the first one
// has already recorded, which must not be mistaken for the same renewal returned twice. So the
// result of a read is used only while a confirmation is needed.
func (o observation) confirm(live *coordinationv1.Lease, now time.Time) observation {
	if !o.needsConfirmation(now) {
		return o
	}
	if live == nil {
		o.ValidUntil = now.Add(o.Duration) // there is no evidence against the broker
		return o
	}
	renewed := time.Time{}
	if live.Spec.RenewTime != nil {
		renewed = live.Spec.RenewTime.Time
	}
	if renewed.Equal(o.Renewed) || renewed.Equal(o.liveRenewed) {
		o.confirmed = true
		return o
	}
	o.Observation, o.liveRenewed = o.Extend(now), renewed
	return o
}

// needsConfirmation reports whether a held Lease has expired and the API server itself has not yet
// confirmed it.
func (o observation) needsConfirmation(now time.Time) bool {
	return o.Held && !o.confirmed && o.Expired(now)
}

// state returns the broker's state at the time now. A broker whose unverified Lease has expired is
// down: the Lease stays unverified for one duration, in which a live broker would have renewed it,
// and for longer only while the API server is unavailable.
func (o observation) state(now time.Time) placement.BrokerState {
	state := o.broker
	if !o.podChanged.IsZero() {
		state.AddressStaleFor = max(0, o.podChanged.Add(addressStaleFor).Sub(now))
	}
	switch {
	case !o.Held || o.exited || o.Expired(now):
		state.Liveness = placement.Down
	case o.Unverified:
		state.Liveness = placement.Unknown
	default:
		state.Liveness = placement.Up
	}
	return state
}
