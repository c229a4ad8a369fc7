package assignment

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	// racksWait is the maximum time for which new partitions wait until the racks of all brokers are
	// known. It begins when the first broker of a LogCluster registers.
	racksWait = time.Minute
	// clockSkew is the maximum difference between the clocks of API server and operator.
	clockSkew = 10 * time.Second
	// racksPoll is the interval of passes while partitions wait for racks. Usually a broker's rack
	// becomes known sooner, which triggers a pass.
	racksPoll = 10 * time.Second
)

// brokerRack is what the operator knows about the rack of a broker.
type brokerRack struct {
	name  string // "" if the broker has no rack or its rack is unknown
	known bool   // true if the node was read, the rack was set by a user, or nodes are unreadable
}

// racks contains the racks of a LogCluster's brokers. It is immutable.
type racks struct {
	brokers map[int32]brokerRack
	// first is the time at which the first broker registered, according to the API server's clock;
	// zero if no broker has registered.
	first time.Time
}

// awaited returns the time, counted from now, for which new partitions must wait for the racks of
// the brokers 0 to count-1; 0 if they do not wait.
//
// Assignments are permanent, and the brokers of a new LogCluster register one after the other. The
// time between the first and the last registration is usually about the time that it takes to pull
// an image. Before the first broker registers, no partition can be served, so waiting delays
// nothing. After that, a broker that does not start delays the new partitions of a new LogCluster
// by at most racksWait. If a broker is known to have no rack, nothing waits, because the nodes are
// not labelled.
func (r racks) awaited(count int32, now time.Time) time.Duration {
	unknown := false
	for id := range count {
		rack := r.brokers[id]
		if rack.known && rack.name == "" {
			return 0
		}
		unknown = unknown || !rack.known
	}
	age := now.Sub(r.first)
	switch {
	case !unknown:
		return 0
	case r.first.IsZero():
		return racksPoll
	case age < -clockSkew || age >= racksWait:
		return 0
	}
	return min(racksPoll, racksWait-age)
}

// racksMatter reports whether racks can affect the choice of brokers for a partition. A single
// replica cannot be spread, and if each broker has a replica, there is no choice.
func racksMatter(replicas int, brokers int32) bool {
	return replicas > 1 && replicas < int(brokers)
}

// racks returns the brokers' racks. It reads them from the brokers' Leases, and from the broker
// controller, which may know racks that it has not yet written to the Leases.
func (r *Reconciler) racks(ctx context.Context, key types.NamespacedName) (racks, error) {
	leases := &coordinationv1.LeaseList{}
	if err := r.List(ctx, leases, client.InNamespace(key.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: key.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return racks{}, fmt.Errorf("list the brokers' leases: %w", err)
	}
	all := racks{brokers: map[int32]brokerRack{}}
	for i := range leases.Items {
		lease := &leases.Items[i]
		cluster, broker, ok := v1alpha1.ParseBrokerLeaseName(lease.Name)
		if !ok || cluster != key.Name {
			continue
		}
		name, known := r.Racks(client.ObjectKeyFromObject(lease))
		name = cmp.Or(lease.Annotations[v1alpha1.AnnotationRack], name)
		all.brokers[broker] = brokerRack{name: name, known: known || name != ""}
		if created := lease.CreationTimestamp.Time; all.first.IsZero() || created.Before(all.first) {
			all.first = created
		}
	}
	return all, nil
}
