package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	// Duration is how long a broker's Lease is valid after a renewal. It is also used for a Lease
	// without a positive leaseDurationSeconds.
	Duration = 6 * time.Second
	// RenewInterval is the interval at which a broker renews its Lease.
	RenewInterval = 2 * time.Second
)

// Observation is what an observer knows about one Lease. The zero value is a Lease that has not
// been observed.
type Observation struct {
	// Held reports whether the Lease has a holder. A broker that stops gracefully releases its
	// Lease.
	Held bool
	// Renewed is the last renewTime that was observed, by the holder's clock.
	Renewed time.Time
	// ValidUntil is when the Lease expires unless another renewal is observed, by the observer's
	// clock.
	ValidUntil time.Time
	// Duration is how long the Lease is valid after a renewal.
	Duration time.Duration
	// Unverified reports whether the Lease had already expired at the first observation, by the
	// holder's clock, and no renewal has been observed since. The holder may be dead, or its clock
	// may be behind.
	Unverified bool
}

// Observe returns the observation of a Lease at the time now, after an earlier observation.
//
// A renewal is a renewTime that differs from the last one, not a later one: a holder whose clock
// was set back still renews. Consequently a holder that dies is considered alive for a full
// duration after its last renewal was observed.
func (o Observation) Observe(lease *coordinationv1.Lease, now time.Time) Observation {
	next := Observation{
		Held:    lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "",
		Renewed: o.Renewed, ValidUntil: o.ValidUntil, Unverified: o.Unverified,
		Duration: Duration,
	}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		next.Duration = time.Duration(*seconds) * time.Second
	}
	if renewed := lease.Spec.RenewTime; renewed != nil {
		next.Renewed = renewed.Time
	}
	switch {
	case !o.Seen():
		// The Lease is valid for one duration at most, even if the holder's clock is ahead.
		next.ValidUntil = now.Add(next.Duration)
		if end := next.Renewed.Add(next.Duration); end.Before(next.ValidUntil) {
			if next.Unverified = !now.Before(end); !next.Unverified {
				next.ValidUntil = end
			}
		}
	case !next.Renewed.Equal(o.Renewed):
		return next.Extend(now)
	}
	return next
}

// Extend returns the observation with the Lease valid for one duration from now.
func (o Observation) Extend(now time.Time) Observation {
	o.ValidUntil, o.Unverified = now.Add(o.Duration), false
	return o
}

// Seen reports whether the Lease has been observed.
func (o Observation) Seen() bool { return !o.ValidUntil.IsZero() }

// Expired reports whether the Lease has run out at the time now.
func (o Observation) Expired(now time.Time) bool { return !now.Before(o.ValidUntil) }

// Alive reports whether the Lease proves at the time now that its holder is alive.
func (o Observation) Alive(now time.Time) bool {
	return o.Held && !o.Unverified && !o.Expired(now)
}

// Broker returns the LogCluster and the id of the broker that a Lease belongs to. ok is false if
// the name is not that of a broker's Lease, or names another cluster than the label.
func Broker(lease *coordinationv1.Lease) (cluster string, id int32, ok bool) {
	cluster, id, ok = v1alpha1.ParseBrokerLeaseName(lease.Name)
	return cluster, id, ok && cluster == lease.Labels[v1alpha1.LabelCluster]
}

// Epoch returns the broker epoch that holds a Lease, or held it last: its leaseTransitions.
func Epoch(lease *coordinationv1.Lease) int64 {
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		return int64(*transitions)
	}
	return 0
}

// Leaving reports whether the broker epoch that holds a Lease has announced its controlled
// shutdown.
func Leaving(lease *coordinationv1.Lease) bool {
	return v1alpha1.LeaseLeaves(lease.Annotations, Epoch(lease))
}
