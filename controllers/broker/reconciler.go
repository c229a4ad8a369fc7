package broker

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
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// Reconciler notifies the partitions of a broker, and its LogCluster, when the state of the broker
// has changed: it came up, went down, or restarted with another broker epoch.
type Reconciler struct {
	client.Client
	// Live reads from the API server itself, not from the cache.
	Live client.Reader
	// Brokers is shared with the controllers that this one notifies, so that all of them use the
	// same broker states.
	Brokers *brokerstate.Tracker
	// Partitions and Clusters are the channels to which notifications are sent. The controllers of
	// these resources receive from them.
	Partitions, Clusters chan<- event.GenericEvent

	// notified contains an entry for each broker whose state is not the zero value.
	notified    keyed.Map[notification]
	racks       *racks
	connections *connections
	exited      chan event.GenericEvent // Leases of brokers whose process has exited
}

// Setup adds the controller, and the runnable that holds its connections, to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.exited = make(chan event.GenericEvent)
	r.racks = newRacks(r.Client, r.Live)
	r.connections = newConnections(r.processExited)
	if err := mgr.Add(r.connections); err != nil {
		return fmt.Errorf("add the connections to brokers: %w", err)
	}
	return watch.NewController(mgr, "broker", 1).
		For(&coordinationv1.Lease{}).
		// A broker's pod has the name of its Lease.
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}).
		WatchesRawSource(source.Channel(r.exited, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// processExited marks the process of a broker epoch as exited and queues the broker's Lease for a
// reconciliation.
func (r *Reconciler) processExited(ctx context.Context, key types.NamespacedName, epoch int64) {
	r.Brokers.ProcessExited(key, epoch)
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = key.Namespace, key.Name
	_ = watch.Send(ctx, r.exited, lease) // fails only when the manager stops
}

// Reconcile runs at each renewal of a Lease that the watch delivers. It also runs when the Lease
// expires (by RequeueAfter), because a broker whose node fails causes no event. Most runs find that
// the state is the last one of which partitions were notified, and write nothing.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster, broker, address, ok, err := r.brokerOf(ctx, req.NamespacedName)
	if err != nil || !ok {
		return ctrl.Result{}, err
	}
	state, until, err := r.Brokers.State(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	// A connection is needed only to detect an unexpected exit. In controlled shutdown, the broker
	// has already announced its exit.
	if state.Liveness == placement.Up && !state.Leaving {
		r.connections.watch(req.NamespacedName, state.Epoch, address)
	} else {
		r.connections.drop(req.NamespacedName)
	}
	pending, err := r.notify(ctx, req.NamespacedName, cluster, index.BrokerKey(cluster, broker),
		state)
	if err != nil {
		return ctrl.Result{}, err
	}
	// Racks are written after the notifications, so that elections do not wait for them.
	if err := r.racks.write(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, err
	}
	if state.Liveness == placement.Down && !time.Now().Before(until) {
		return ctrl.Result{RequeueAfter: pending}, nil
	}
	// The delay is at least a millisecond: until may have passed meanwhile, and a delay of zero
	// would disable the requeue.
	again := max(time.Until(until), time.Millisecond)
	if pending > 0 {
		again = min(again, pending)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// notify sends notifications if a broker's state has changed. Partitions that the broker leads,
// partitions without a leader, and the LogCluster are notified at once. The broker's other
// partitions are notified after a delay. notify returns the remaining delay, 0 if no notification
// is pending.
//
// The state is stored in r.notified after the notifications. If a notification fails, the next run
// notifies all of these partitions again. A second notification of a partition has no effect.
func (r *Reconciler) notify(ctx context.Context, key types.NamespacedName, cluster, broker string,
	state placement.BrokerState) (time.Duration, error) {
	// A change of only AddressStaleFor causes no notification: it changes with time, and is no
	// reason for an election.
	state.AddressStaleFor = 0
	last, _ := r.notified.Get(key)
	now := time.Now()
	if last.state != state {
		if err := cmp.Or(r.notifyPartitions(ctx, key.Namespace, broker, needsLeader),
			r.notifyCluster(ctx, key.Namespace, cluster)); err != nil {
			return 0, err
		}
		last.state = state
		if last.pendingSince.IsZero() {
			last.pendingSince = now
		}
	} else if in, pending := last.followersDue(now); pending && in == 0 {
		if err := r.notifyPartitions(ctx, key.Namespace, broker, hasLeader); err != nil {
			return 0, err
		}
		last.pendingSince = time.Time{}
	}
	if last == (notification{}) {
		r.notified.Delete(key) // the Lease was deleted or never had a holder
		return 0, nil
	}
	r.notified.Set(key, last)
	in, pending := last.followersDue(now)
	if !pending {
		return 0, nil
	}
	return max(in, time.Millisecond), nil
}

// brokerOf returns the broker to which a Lease belongs, and the address at which other brokers
// reach the broker ("" if the Lease does not contain it). For a deleted Lease, which has no label,
// only the name is used. ok is false if the Lease does not belong to a broker, or if its label and
// its name contradict each other.
func (r *Reconciler) brokerOf(ctx context.Context, key types.NamespacedName) (cluster string,
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

// notifyPartitions sends those Partitions of a broker for which matches returns true to the
// partition controller. If the controller does not receive them, it blocks until ctx ends.
func (r *Reconciler) notifyPartitions(ctx context.Context, namespace, broker string,
	matches func(p *v1alpha1.Partition, broker string) bool) error {
	held := &v1alpha1.PartitionList{}
	err := r.List(ctx, held, client.InNamespace(namespace),
		client.MatchingFields{index.ByBroker: broker}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list the partitions of broker %s: %w", broker, err)
	}
	for i := range held.Items {
		if !matches(&held.Items[i], broker) {
			continue
		}
		if err := watch.Send(ctx, r.Partitions, &held.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// notifyCluster queues a LogCluster for an update of its status.
func (r *Reconciler) notifyCluster(ctx context.Context, namespace, name string) error {
	cluster := &v1alpha1.LogCluster{}
	cluster.Namespace, cluster.Name = namespace, name
	return watch.Send(ctx, r.Clusters, cluster)
}

// needsLeader reports whether a change of a broker's state may require an election at once: the
// broker leads the partition, or the partition has no leader.
func needsLeader(p *v1alpha1.Partition, broker string) bool {
	return p.Status.Leader == placement.NoLeader ||
		index.BrokerKey(p.Spec.Cluster, p.Status.Leader) == broker
}

func hasLeader(p *v1alpha1.Partition, broker string) bool { return !needsLeader(p, broker) }
