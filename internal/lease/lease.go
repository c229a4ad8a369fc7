package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	// Duration is how long a broker's Lease is valid after a renewal. It is also used for a Lease
	// whose leaseDurationSeconds is missing or not positive.
	Duration = 6 * time.Second
	// RenewInterval is how often a broker renews its Lease.
	RenewInterval = 2 * time.Second
)

// Observation is what an observer knows about one Lease. The zero value represents a Lease that has
// not been observed.
type Observation struct {
	// Held is true if the Lease has a holder. A broker that stops gracefully releases its Lease.
	Held bool
	// Renewed is the last renewTime that was observed, by the holder's clock.
	Renewed time.Time
	// ValidUntil is the time, by the observer's clock, at which the Lease expires unless another
	// renewal is observed.
	ValidUntil time.Time
	// Duration is how long the Lease is valid after a renewal.
	Duration time.Duration
	// Unverified is true if the Lease already appeared to have expired at the first observation,
	// judged by the holder's renewTime, and if no renewal has been observed since. Then either the
	// holder has failed, or its clock is behind.
	Unverified bool
}

// Observe returns a new observation of a Lease at the time now. o is the previous observation.
//
// Every change of renewTime is a renewal, even to an earlier time, because the holder's clock may
// have been set back. A holder that fails is considered alive until a full duration after the
// observer noticed its last renewal.
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
		// The Lease is valid for at most one duration, even if the holder's clock is ahead.
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

// Extend returns the observation after a renewal at the time now: the Lease is valid for one
// duration after now.
func (o Observation) Extend(now time.Time) Observation {
	o.ValidUntil, o.Unverified = now.Add(o.Duration), false
	return o
}

// Seen reports whether the Lease has been observed.
func (o Observation) Seen() bool { return !o.ValidUntil.IsZero() }

// Expired reports whether the Lease has expired at the time now.
func (o Observation) Expired(now time.Time) bool { return !now.Before(o.ValidUntil) }

// Alive reports whether the Lease proves that its holder is alive at the time now.
func (o Observation) Alive(now time.Time) bool {
	return o.Held && !o.Unverified && !o.Expired(now)
}

// Broker returns the LogCluster and the broker id to which a Lease belongs. Result ok is false if
// the Lease's name is not the name of a broker's Lease, or if name and label contain different
// clusters.
func Broker(lease *coordinationv1.Lease) (cluster string, id int32, ok bool) {
	cluster, id, ok = v1alpha1.ParseBrokerLeaseName(lease.Name)
	return cluster, id, ok && cluster == lease.Labels[v1alpha1.LabelCluster]
}

// Epoch returns the broker epoch of a Lease's current or last holder: the Lease's leaseTransitions.
func Epoch(lease *coordinationv1.Lease) int64 {
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		return int64(*transitions)
	}
	return 0
}

// Leaving reports whether the broker epoch that holds a Lease has announced its controlled
// shutdown.
func Leaving(lease *coordinationv1.Lease) bool {
	return v1alpha1.ReadRegistration(lease).Leaves(Epoch(lease))
}

// Isolated reports whether the broker epoch that holds a Lease cannot reach other brokers.
func Isolated(lease *coordinationv1.Lease) bool {
	return v1alpha1.LeaseIsolated(lease.Annotations, Epoch(lease))
}
