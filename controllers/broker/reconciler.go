package broker

import (
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
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/peertls"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// Reconciler notifies other controllers when a broker's state has changed: the broker started,
// failed, or restarted with another broker epoch.
type Reconciler struct {
	client.Client
	// Live reads from the API server itself, not from the cache.
	Live client.Reader
	// TLS provides the TLS configurations for connections to brokers.
	TLS *peertls.Client
	// Brokers is shared with the controllers that this one notifies, so that all of them see the same
	// broker states.
	Brokers *brokerstate.Tracker
	Events  conditions.Recorder
	// Notified contains the channels on which other controllers receive the broker's LogCluster, in
	// the order in which this controller sends to them.
	Notified []chan<- event.GenericEvent
	// RackKnown receives the broker's LogCluster when the broker's rack becomes known.
	RackKnown chan<- event.GenericEvent

	// last contains the broker state that was last sent to the other controllers, for each broker
	// whose state is not the zero value.
	last        keyed.Map[placement.BrokerState]
	racks       *racks
	isolation   *isolation
	endpoints   *endpoints
	connections *connections
	exited      chan event.GenericEvent // Leases of brokers whose process has exited
}

// Setup adds the controller, and the runnable that holds its connections, to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.exited = make(chan event.GenericEvent)
	r.racks = newRacks(r.Client, r.Live)
	r.isolation = &isolation{Client: r.Client, live: r.Live, brokers: r.Brokers, events: r.Events}
	r.endpoints = &endpoints{Client: r.Client, nodes: r.Live}
	r.connections = newConnections(r.processExited)
	if err := mgr.Add(r.connections); err != nil {
		return fmt.Errorf("add the connections to brokers: %w", err)
	}
	return watch.NewController(mgr, "broker", 1).
		For(&coordinationv1.Lease{}).
		// A broker's pod has the same name as the broker's Lease.
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(leaseOfService)).
		WatchesRawSource(source.Channel(r.exited, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// processExited marks the process of a broker epoch as exited and queues the broker's Lease for a
// reconciliation.
func (r *Reconciler) processExited(ctx context.Context, key types.NamespacedName, epoch int64) {
	r.Brokers.ProcessExited(key, epoch)
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = key.Namespace, key.Name
	_ = watch.Send(ctx, r.exited, lease) // Send fails only when the manager stops.
}

// Reconcile runs at each renewal of a Lease that the watch delivers. It also runs when the Lease
// expires (because of RequeueAfter), because a broker whose node fails causes no event. In most
// runs, the state equals the one last sent to the other controllers, and Reconcile writes nothing.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster, address, secure, ok, err := r.brokerOf(ctx, req.NamespacedName)
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
		r.watch(ctx, req.NamespacedName, state.Epoch, address, secure)
	} else {
		r.connections.drop(req.NamespacedName)
	}
	if state == (placement.BrokerState{}) {
		// The Lease was deleted, perhaps with its LogCluster. Connections are opened only for Leases, so
		// the certificate is issued again only if the LogCluster has other brokers.
		r.TLS.Forget(types.NamespacedName{Namespace: req.Namespace, Name: cluster})
	}
	if err := r.notify(ctx, req.NamespacedName, cluster, state); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.isolation.evaluate(ctx, types.NamespacedName{Namespace: req.Namespace,
		Name: cluster}); err != nil {
		return ctrl.Result{}, err
	}
	// Racks and endpoints are written after the notifications, so that elections do not wait for
	// them.
	if err := r.writeRack(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.endpoints.write(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, err
	}
	if state.Liveness == placement.Down && !time.Now().Before(until) {
		return ctrl.Result{}, nil
	}
	// The delay is at least a millisecond: the time until may have passed already, and a delay of zero
	// would disable the requeue.
	return ctrl.Result{RequeueAfter: max(time.Until(until), time.Millisecond)}, nil
}

// watch opens a connection to a broker. If the operator has no certificate for the LogCluster yet,
// it connects at a later renewal of the Lease.
func (r *Reconciler) watch(ctx context.Context, key types.NamespacedName, epoch int64,
	address string, secure bool) {
	if !secure {
		r.connections.watch(key, epoch, address, nil)
		return
	}
	cluster, id, _ := v1alpha1.ParseBrokerLeaseName(key.Name)
	config, err := r.TLS.Config(ctx, types.NamespacedName{Namespace: key.Namespace,
		Name: cluster}, id)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("failed to make a certificate for a connection to a broker",
			"error", err.Error())
		return
	}
	r.connections.watch(key, epoch, address, config)
}

// notify sends notifications if a broker's state has changed. The state is stored after the
// notifications. If one of them fails, the next run sends all of them again, which has no effect.
func (r *Reconciler) notify(ctx context.Context, key types.NamespacedName, cluster string,
	state placement.BrokerState) error {
	// A change of AddressStaleFor alone causes no notification. It changes with time, and is no reason
	// for an election.
	state.AddressStaleFor = 0
	if last, _ := r.last.Get(key); last == state {
		return nil
	}
	for _, to := range r.Notified {
		if err := watch.Send(ctx, to, logCluster(key.Namespace, cluster)); err != nil {
			return err
		}
	}
	if state == (placement.BrokerState{}) {
		r.last.Delete(key) // the Lease was deleted or never had a holder
		return nil
	}
	r.last.Set(key, state)
	return nil
}

// writeRack writes a broker's rack into its Lease, and sends a notification if the rack has just
// become known.
func (r *Reconciler) writeRack(ctx context.Context, key types.NamespacedName,
	cluster string) error {
	_, before := r.racks.of(key)
	if err := r.racks.write(ctx, key, cluster); err != nil {
		return err
	}
	if _, known := r.racks.of(key); before || !known {
		return nil
	}
	return watch.Send(ctx, r.RackKnown, logCluster(key.Namespace, cluster))
}

// Rack returns the broker's rack, read from the label of its node; see assignment.Reconciler. It is
// safe for concurrent use after Setup.
func (r *Reconciler) Rack(lease types.NamespacedName) (name string, known bool) {
	return r.racks.of(lease)
}

// logCluster returns a LogCluster that has only a name. It is used in notifications.
func logCluster(namespace, name string) *v1alpha1.LogCluster {
	object := &v1alpha1.LogCluster{}
	object.Namespace, object.Name = namespace, name
	return object
}

// brokerOf returns the LogCluster of the broker that holds a Lease, and the address at which other
// brokers reach this broker ("" if the Lease does not contain it). secure is true if that address
// uses TLS. A deleted Lease has no label, so brokerOf uses only its name. ok is false if the Lease
// does not belong to a broker, or if its label and its name contradict each other.
func (r *Reconciler) brokerOf(ctx context.Context, key types.NamespacedName) (cluster,
	address string, secure, ok bool, err error) {
	if cluster, _, ok = v1alpha1.ParseBrokerLeaseName(key.Name); !ok {
		return "", "", false, false, nil
	}
	lease := &coordinationv1.Lease{}
	if err := r.Get(ctx, key, lease); err != nil {
		return cluster, "", false, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	registered, err := v1alpha1.ParseRegistration(lease)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "broker is treated as not registered")
	}
	return cluster, registered.Peer, registered.PeerTLS,
		lease.Labels[v1alpha1.LabelCluster] == cluster, nil
}
