package kube

import (
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
)

// outageAfter is how long after the last renewal of its own Lease this broker considers the API
// server unreachable. It must be less than lease.Duration-lease.RenewInterval. The last renewal of
// another Lease that this broker has observed may be one renewal interval older than its own last
// renewal, and that Lease must not expire before the outage is detected.
const outageAfter = lease.RenewInterval + time.Second

// brokerLease is the last observation of another broker's Lease.
type brokerLease struct {
	lease.Observation
	broker metadata.Broker
}

// liveness decides which brokers are alive. It has no lock and no clock; the current time is an
// argument.
type liveness struct {
	self   metadata.Broker
	others map[string]brokerLease // observed Leases by name
	outage bool                   // true if the API server was unreachable at the last call of observe
	// invalid describes the Leases whose registrations cannot be parsed. Their brokers do not count as
	// alive.
	invalid []error
}

// observe updates the state from all Leases that the watch has delivered. ownRenewed is the time at
// which this broker last renewed its own Lease. observe ignores a Lease whose name or endpoint is
// not that of a broker.
//
// A renewal of this broker's own Lease counts only when the watch has delivered it. An interrupted
// watch takes up to half a minute to resume, while the broker still renews its Lease. Otherwise the
// API server would appear reachable in that time, and every other Lease would expire.
func (l *liveness) observe(leases []*coordinationv1.Lease, ownRenewed, now time.Time) {
	others := map[string]brokerLease{}
	l.invalid = nil
	for _, current := range leases {
		broker, ok := leaseBroker(current)
		switch {
		case ok && broker.ID != l.self.ID:
			others[current.Name] = brokerLease{
				Observation: l.others[current.Name].Observe(current, now), broker: broker,
			}
		// This broker learns of its own controlled shutdown through the watch, as other brokers do. This
		// is early enough.
		case ok && broker.Epoch == l.self.Epoch:
			l.self.Leaving, l.self.Isolated = broker.Leaving, broker.Isolated
			l.self.Endpoints = broker.Endpoints
			// renewTime and ownRenewed are both from this broker's clock.
			if renew := current.Spec.RenewTime; renew != nil && renew.Time.Before(ownRenewed) {
				ownRenewed = renew.Time
			}
		case !ok:
			if _, err := v1alpha1.ParseRegistration(current); err != nil {
				l.invalid = append(l.invalid, err)
			}
		}
	}
	outage := now.Sub(ownRenewed) > outageAfter
	if outage || l.outage {
		// No renewal could be observed during the outage, so extend every Lease that has a holder by
		// lease.Duration.
		for name, other := range others {
			if l.others[name].Held && other.Held {
				other.Observation = other.Extend(now)
				others[name] = other
			}
		}
	}
	l.others, l.outage = others, outage
}

// brokers returns the brokers that are alive, including this one.
func (l *liveness) brokers(now time.Time) map[int32]metadata.Broker {
	alive := map[int32]metadata.Broker{l.self.ID: l.self}
	for other := range maps.Values(l.others) {
		if other.Alive(now) {
			alive[other.broker.ID] = other.broker
		}
	}
	return alive
}

// next returns how long the result of brokers remains valid if no Lease changes.
func (l *liveness) next(now time.Time) time.Duration {
	next := lease.Duration
	for other := range maps.Values(l.others) {
		if left := other.ValidUntil.Sub(now); other.Alive(now) {
			next = min(next, left)
		}
	}
	return next
}

// leaseBroker returns the broker that a Lease describes. ok is false if the Lease's name, label or
// endpoint is not that of a broker.
func leaseBroker(from *coordinationv1.Lease) (broker metadata.Broker, ok bool) {
	_, id, ok := lease.Broker(from)
	if !ok {
		return metadata.Broker{}, false
	}
	registered, epoch := v1alpha1.ReadRegistration(from), lease.Epoch(from)
	endpoint, err := metadata.ParseEndpoint(registered.Endpoint)
	if err != nil {
		return metadata.Broker{}, false
	}
	return metadata.Broker{
		ID: id, Epoch: epoch,
		Endpoints:  leaseEndpoints(from.Annotations, endpoint),
		Peer:       leasePeer(registered),
		Rack:       from.Annotations[v1alpha1.AnnotationRack],
		Directory:  registered.Directory,
		CleanEpoch: registered.CleanEpoch, BootEpoch: registered.BootEpoch,
		ProducerIDs:        max(0, registered.ProducerIDs),
		Leaving:            registered.Leaves(epoch) || lease.Isolated(from),
		Isolated:           lease.Isolated(from),
		TransactionVersion: registered.TransactionVersion,
	}, true
}

// leasePeer returns the peer address in a Lease.
func leasePeer(registered v1alpha1.Registration) string {
	if registered.PeerTLS {
		return metadata.PeerTLS + registered.Peer
	}
	return registered.Peer
}

// leaseEndpoints returns the endpoints that the operator has written into a Lease. If they do not
// include the default listener, the result contains the address that the broker itself has written
// for it.
func leaseEndpoints(annotations map[string]string, own metadata.Endpoint) metadata.Endpoints {
	all := map[string]metadata.Endpoint{metadata.DefaultListener: own}
	for name, value := range annotations {
		listener, ok := strings.CutPrefix(name, v1alpha1.AnnotationEndpointPrefix)
		if !ok {
			continue
		}
		if endpoint, err := metadata.ParseEndpoint(value); err == nil {
			all[listener] = endpoint
		}
	}
	return metadata.NewEndpoints(all)
}
