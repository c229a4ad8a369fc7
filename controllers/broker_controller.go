package controllers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// The leaders of partitions that a broker follows see for themselves that it went, or came back as
// another incarnation. They do so at once, as their producers wait; were they helped at once, both
// would write, and when a broker of a thousand partitions goes, those without a leader would wait
// for that. So they are helped when they had goneAfter to do it; and when the broker is back, after
// backAfter: what it was counts no more, and they write that as they take it in again.
const (
	goneAfter = 5 * time.Second
	backAfter = 30 * time.Second
)

// brokerReconciler watches the Leases and pods of brokers, and tells the partitions of a broker
// when it came, went, or came back as another incarnation. Partitions could watch Leases
// themselves; each of thousands would then look at every renewal, and each would need a timer of
// its own for the Lease's end.
type brokerReconciler struct {
	client.Client
	brokers *brokers
	// brokers is shared with partitionReconciler, so that both think the same of a broker.
	// partitions takes the partitions that must look again, clusters the LogClusters; their
	// controllers drain them.
	partitions, clusters chan<- event.GenericEvent
	// told is what the partitions of each broker know; a broker of which there is nothing to know
	// has no entry. Only Reconcile uses it, of which one runs at a time.
	told  map[types.NamespacedName]told
	racks *racks

	connections *connections
	ended       <-chan event.GenericEvent // Leases of brokers whose connection has told their end
}

// told is what a broker's partitions know of it.
type told struct {
	standing placement.BrokerState
	// since when there is news for those that it does not lead; zero: they were told
	since time.Time
}

// othersIn is in how long those that the broker does not lead are to be told; ok is false if they
// were. One that comes and goes puts nothing off.
func (t told) othersIn(now time.Time) (in time.Duration, ok bool) {
	if t.since.IsZero() {
		return 0, false
	}
	after := goneAfter
	if t.standing.Liveness == placement.Up {
		after = backAfter
	}
	return max(t.since.Add(after).Sub(now), 0), true
}

// setup runs one worker: told needs no lock then, and a cluster has few brokers. A broker's pod has
// the name of its Lease.
func (r *brokerReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "broker", 1).
		For(&coordinationv1.Lease{}).
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}).
		WatchesRawSource(source.Channel(r.ended, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile runs at each renewal, as the watch brings it, and at the end of the Lease, by
// RequeueAfter: a broker that dies sends no event. Most runs change nothing and end after the
// comparison with told.
func (r *brokerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster, broker, address, ok, err := r.brokerOf(ctx, req.NamespacedName)
	if err != nil || !ok {
		return ctrl.Result{}, err
	}
	state, until, err := r.brokers.look(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if state.Liveness == placement.Up && !state.Leaving { // the end of one that leaves is no news
		r.connections.watch(req.NamespacedName, state.Epoch, address)
	} else {
		r.connections.drop(req.NamespacedName)
	}
	others, err := r.tellNews(ctx, req.NamespacedName, cluster, brokerKey(cluster, broker), state)
	if err != nil {
		return ctrl.Result{}, err
	}
	// after the elections, which do not wait for it
	if err := r.racks.write(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, err
	}
	if state.Liveness == placement.Down && !time.Now().Before(until) {
		return ctrl.Result{RequeueAfter: others}, nil
	}
	// At least a millisecond: until may be past by now, and zero would mean never.
	again := max(time.Until(until), time.Millisecond)
	if others > 0 {
		again = min(again, others)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// tellNews tells a broker's partitions of its state if they know another: those that need a leader
// at once, and then its LogCluster; the others after a while. It returns after how long; zero: they
// know.
//
// told is set after the partitions were told, not before: if telling fails half-way, the next try
// tells all of them again, and those that know already write nothing.
func (r *brokerReconciler) tellNews(
	ctx context.Context, key types.NamespacedName, cluster, broker string,
	state placement.BrokerState,
) (time.Duration, error) {
	state.Unsettled = 0 // it passes by itself, and is no reason to elect anybody
	known, now := r.told[key], time.Now()
	if known.standing != state {
		if err := cmp.Or(r.tell(ctx, key.Namespace, broker, needsLeader),
			r.tellCluster(ctx, key.Namespace, cluster)); err != nil {
			return 0, err
		}
		known.standing = state
		if known.since.IsZero() {
			known.since = now
		}
	} else if in, ok := known.othersIn(now); ok && in == 0 {
		if err := r.tell(ctx, key.Namespace, broker, hasLeader); err != nil {
			return 0, err
		}
		known.since = time.Time{}
	}
	if known == (told{}) {
		delete(r.told, key) // the Lease is gone, or nobody ever held it
		return 0, nil
	}
	r.told[key] = known
	others, ok := known.othersIn(now)
	if !ok {
		return 0, nil
	}
	return max(others, time.Millisecond), nil
}

// brokerOf tells whose Lease it is, and where the broker listens ("": it does not say). A Lease
// that is gone has no label any more, so its name must do. ok is false for a Lease that is no
// broker's, or whose label and name do not agree.
func (r *brokerReconciler) brokerOf(ctx context.Context, key types.NamespacedName) (cluster string,
	broker int32, address string, ok bool, err error) {
	if cluster, broker, ok = v1alpha1.ParseBrokerLeaseName(key.Name); !ok {
		return "", 0, "", false, nil
	}
	lease := &coordinationv1.Lease{}
	if err := r.Get(ctx, key, lease); err != nil {
		return cluster, broker, "", apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return cluster, broker, lease.Annotations[v1alpha1.AnnotationPeer],
		lease.Labels[v1alpha1.LabelCluster] == cluster, nil
}

// tell puts the partitions that a broker holds, and that are asked for, into the partition
// controller's queue. It waits while that is full, until ctx ends.
func (r *brokerReconciler) tell(ctx context.Context, namespace, broker string,
	which func(p *v1alpha1.Partition, broker string) bool) error {
	held := &v1alpha1.PartitionList{}
	err := r.List(ctx, held, client.InNamespace(namespace), client.MatchingFields{byBroker: broker},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list the partitions of broker %s: %w", broker, err)
	}
	for i := range held.Items {
		if !which(&held.Items[i], broker) {
			continue
		}
		select {
		case r.partitions <- event.GenericEvent{Object: &held.Items[i]}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tellCluster puts a LogCluster into the queue of its status.
func (r *brokerReconciler) tellCluster(ctx context.Context, namespace, cluster string) error {
	of := &v1alpha1.LogCluster{}
	of.Namespace, of.Name = namespace, cluster
	select {
	case r.clusters <- event.GenericEvent{Object: of}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// needsLeader tells whether a partition stands still for a broker's sake: that one leads it, or
// nobody does.
func needsLeader(p *v1alpha1.Partition, broker string) bool {
	return p.Status.Leader == placement.NoLeader ||
		brokerKey(p.Spec.Cluster, p.Status.Leader) == broker
}

func hasLeader(p *v1alpha1.Partition, broker string) bool { return !needsLeader(p, broker) }
