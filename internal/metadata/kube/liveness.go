package kube

import (
	"maps"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// Times of a broker's Lease.
const (
	leaseDuration = 6 * time.Second
	renewInterval = 2 * time.Second
	// outageAfter is for how long our own Lease was not renewed when we take the API server for
	// unreachable. When that begins, another's Lease may have been seen to be renewed one interval
	// ago, so it must be less than leaseDuration-renewInterval, or that one would seem to run out
	// first.
	outageAfter = renewInterval + time.Second
)

// sighting is what was last seen of another broker's Lease.
type sighting struct {
	broker     metadata.Broker
	held       bool      // by somebody; a released Lease is of a broker that went in order
	renewed    time.Time // by that broker's clock
	aliveUntil time.Time // by ours
}

// liveness knows which brokers are up. It is plain data; now comes in.
type liveness struct {
	self   metadata.Broker
	seen   map[string]sighting // by Lease
	outage bool                // the API server was out of reach at the last look
}

// look takes in all Leases as they are now known, and when our own was renewed last. A Lease that
// does not say who it is of, or where that broker is to be found, is nobody's.
//
// Our own Lease comes by the same watch as the others. A watch that was cut off takes up to half a
// minute to come back, while renewals go on; all others would seem to run out meanwhile. So what
// counts is the renewal of ours that the watch has brought.
func (l *liveness) look(leases []*coordinationv1.Lease, ownRenewed, now time.Time) {
	seen := map[string]sighting{}
	for _, lease := range leases {
		broker, ok := leaseBroker(lease)
		switch {
		case ok && broker.ID != l.self.ID:
			seen[lease.Name] = observe(l.seen[lease.Name], lease, broker, now)
		// later than we wrote it, if ever, which is early enough
		case ok && broker.Epoch == l.self.Epoch:
			l.self.Leaving = broker.Leaving
			// by our own clock, as ownRenewed is
			if renew := lease.Spec.RenewTime; renew != nil && renew.Time.Before(ownRenewed) {
				ownRenewed = renew.Time
			}
		}
	}
	outage := now.Sub(ownRenewed) > outageAfter
	if outage || l.outage {
		// Nobody could be seen to renew; they get the time to.
		for name, s := range seen {
			if l.seen[name].held && s.held {
				s.aliveUntil = now.Add(leaseDuration)
				seen[name] = s
			}
		}
	}
	l.seen, l.outage = seen, outage
}

// observe compares a Lease with what was seen of it before. At the first look there is only the
// other's clock to go by; a wrong verdict then ends with the next renewal.
func observe(before sighting, lease *coordinationv1.Lease, broker metadata.Broker,
	now time.Time) sighting {
	s := sighting{broker: broker, renewed: before.renewed, aliveUntil: before.aliveUntil}
	s.held = lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	duration := leaseDuration
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		duration = time.Duration(*seconds) * time.Second
	}
	if renew := lease.Spec.RenewTime; renew != nil && !renew.Time.Equal(before.renewed) {
		s.renewed = renew.Time
		s.aliveUntil = now.Add(duration)
		if first := renew.Add(duration); before.renewed.IsZero() && first.Before(s.aliveUntil) {
			s.aliveUntil = first
		}
	}
	return s
}

// brokers returns those that are up, this one among them.
func (l *liveness) brokers(now time.Time) map[int32]metadata.Broker {
	up := map[int32]metadata.Broker{l.self.ID: l.self}
	for s := range maps.Values(l.seen) {
		if s.held && now.Before(s.aliveUntil) {
			up[s.broker.ID] = s.broker
		}
	}
	return up
}

// next returns how long the answer of brokers holds if nothing is seen until then.
func (l *liveness) next(now time.Time) time.Duration {
	next := leaseDuration
	for s := range maps.Values(l.seen) {
		if left := s.aliveUntil.Sub(now); s.held && left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// leaseBroker reads who a Lease is of. The name must be the one we would give it:
// <cluster>-broker-<id>.
func leaseBroker(lease *coordinationv1.Lease) (metadata.Broker, bool) {
	cluster, id, ok := v1alpha1.ParseBrokerLeaseName(lease.Name)
	if !ok || cluster != lease.Labels[v1alpha1.LabelCluster] {
		return metadata.Broker{}, false
	}
	endpoint, err := metadata.ParseEndpoint(lease.Annotations[v1alpha1.AnnotationEndpoint])
	if err != nil {
		return metadata.Broker{}, false
	}
	return metadata.Broker{
		ID: id, Epoch: leaseEpoch(lease),
		Endpoints: metadata.NewEndpoints(map[string]metadata.Endpoint{
			metadata.DefaultListener: endpoint,
		}),
		Peer:       lease.Annotations[v1alpha1.AnnotationPeer],
		Rack:       lease.Annotations[v1alpha1.AnnotationRack],
		Directory:  lease.Annotations[v1alpha1.AnnotationDirectory],
		CleanEpoch: v1alpha1.LeaseCleanEpoch(lease.Annotations), ProducerIDs: producerIDs(lease),
		Leaving: leaves(lease),
	}, true
}

// leaseEpoch is the incarnation that holds, or last held, a Lease.
func leaseEpoch(lease *coordinationv1.Lease) int64 {
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		return int64(*transitions)
	}
	return 0
}

// leaves tells whether the incarnation that holds a Lease has said that it leaves.
func leaves(lease *coordinationv1.Lease) bool {
	return v1alpha1.LeaseLeaves(lease.Annotations, leaseEpoch(lease))
}

// producerIDs bounds what a broker has given out; 0: nobody says.
func producerIDs(lease *coordinationv1.Lease) int64 {
	bound, err := strconv.ParseInt(lease.Annotations[v1alpha1.AnnotationProducerIDs], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, bound)
}
