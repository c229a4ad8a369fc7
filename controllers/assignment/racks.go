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
	// racksWait is the time after the first broker of a LogCluster has registered for which new
	// partitions wait until the racks of all brokers are known.
	racksWait = time.Minute
	// clockSkew is by how much the clocks of API server and operator may differ.
	clockSkew = 10 * time.Second
	// racksPoll is the interval of passes while partitions wait. Usually a pass is triggered sooner,
	// when the rack of a broker becomes known.
	racksPoll = 10 * time.Second
)

// brokerRack is what the operator knows about the rack of a broker.
type brokerRack struct {
	name  string // "" if it has none or if it is not known
	known bool   // its node was read, or a user has set its rack, or the operator may not read nodes
}

// racks contains the racks of the brokers of a LogCluster. It is not changed.
type racks struct {
	brokers map[int32]brokerRack
	// first is the time at which the first of them registered, by the API server's clock; zero if
	// none has.
	first time.Time
}

// awaited returns for how long new partitions wait for the racks of the brokers 0 to count-1, at
// the time now; 0 if they do not wait.
//
// Assignments are permanent, and the brokers of a new LogCluster register one after the other: the
// time between the first and the last is usually that of pulling an image. Before the first one
// registers no partition can be served, so waiting delays nothing. From then on a broker that does
// not start delays new partitions for racksWait at most, and only those of a new LogCluster. If a
// broker is known to have no rack, the nodes are not labelled, and nothing waits.
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

// racksMatter reports whether racks can affect on which brokers the replicas of a partition are. A
// single replica cannot be spread, and if each broker has a replica there is no choice.
func racksMatter(replicas int, brokers int32) bool {
	return replicas > 1 && replicas < int(brokers)
}

// racks reads the brokers' racks from their Leases, and from what the controller of brokers has
// read and may not have written yet.
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
