package brokerstate

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/placement"
)

// addressStaleFor is the time for which clients may still use the address of a broker's previous
// pod: about the time for which DNS caches keep an answer. A client that connects to an address on
// which nothing listens waits for its full connection timeout, 10 s by default.
const addressStaleFor = 30 * time.Second

// observation is the information about one broker that the tracker has read from the broker's
// Lease. It is immutable: observe and confirm return a new observation. The zero value represents a
// Lease that has not been observed.
type observation struct {
	lease.Observation
	broker placement.BrokerState // without Liveness and AddressStaleFor, which state computes
	// pod is the uid of the broker's pod, or "" if the Lease does not name a pod.
	pod      string
	acquired time.Time // time at which the broker epoch acquired the Lease, by the broker's clock
	// podChanged is the time, by the operator's clock, at which the broker was first observed in a
	// different pod; zero if the pod has not changed.
	podChanged time.Time

	// exited is set when the connection to the broker has proved that the broker process has exited.
	// The next renewal of the Lease refutes this: it clears exited and sets exitRefuted. While
	// exitRefuted is set, further reports about this broker epoch are ignored.
	exited, exitRefuted bool

	// confirmed is set when a read from the API server itself has confirmed the expiry of the
	// Lease. liveRenewed is the renewTime that the last such read returned.
	confirmed   bool
	liveRenewed time.Time
}

// observe returns the observation after the watch has delivered current, which is the latest
// version of the Lease, at the time now.
func (o observation) observe(current *coordinationv1.Lease, now time.Time) observation {
	registered := v1alpha1.ReadRegistration(current)
	next := observation{
		Observation: o.Observe(current, now),
		broker: placement.BrokerState{
			Epoch:      lease.Epoch(current),
			Directory:  registered.Directory,
			CleanEpoch: registered.CleanEpoch,
			BootEpoch:  registered.BootEpoch,
			Leaving:    lease.Leaving(current) || lease.Isolated(current),
		},
		pod: registered.Pod, podChanged: o.podChanged,
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
		// The Lease was renewed, so the broker is alive. A confirmed expiry concerned the previous
		// renewal.
		next.confirmed = false
		next.exitRefuted = next.exitRefuted || next.exited
		next.exited = false
	}
	return next
}

// confirm returns the observation after an expired Lease was read from the API server itself. live
// is the Lease that the read returned, or nil if the API server did not answer. The read is needed
// for two reasons. First, an interrupted watch cannot be distinguished from a broker that has
// stopped renewing. Second, brokers cannot renew their Leases while the API server is unavailable.
//
// The read confirms the expiry if it returns the renewTime that the watch delivered, or the
// renewTime that the previous read returned. In both cases, the full duration of that renewal has
// already passed. Any other renewTime is a new renewal and extends the Lease by one duration, as in
// observe.
//
// Two goroutines may read the same renewal at the same time. The first result extends the Lease.
// The second result equals liveRenewed and would confirm an expiry, although the extended Lease has
// not expired. So confirm ignores the result of a read unless a confirmation is still needed.
func (o observation) confirm(live *coordinationv1.Lease, now time.Time) observation {
	if !o.needsConfirmation(now) {
		return o
	}
	if live == nil {
		o.ValidUntil = now.Add(o.Duration) // a failed read does not prove that the broker has failed
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

// needsConfirmation reports whether a Lease with a holder has expired and no read from the API
// server itself has confirmed the expiry.
func (o observation) needsConfirmation(now time.Time) bool {
	return o.Held && !o.confirmed && o.Expired(now)
}

// state returns the broker's state at the time now. A broker is down if its Lease is unverified and
// has expired. The Lease has then been unverified for at least one Lease duration, during which a
// live broker would have renewed it. A Lease stays unverified for longer only while the API server
// is unavailable.
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
