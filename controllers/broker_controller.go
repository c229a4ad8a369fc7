package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// brokerReconciler watches the Leases and pods of brokers, and tells the partitions of a broker when it came, went, or came back as
// another incarnation. Partitions could watch Leases themselves; each of thousands would then look at every renewal, and
// each would need a timer of its own for the Lease's end.
type brokerReconciler struct {
	client.Client
	brokers *brokers
	// brokers is shared with partitionReconciler, so that both think the same of a broker.
	// partitions takes the partitions that must look again, clusters the LogClusters; their controllers drain them.
	partitions, clusters chan<- event.GenericEvent
	// told is what the partitions of each broker know; a broker of which there is nothing to know has no entry. Only Reconcile uses it, of
	// which one runs at a time.
	told  map[types.NamespacedName]placement.Standing
	racks *racks

	connections *connections
	ended       <-chan event.GenericEvent // Leases of brokers whose connection has told their end
}

// setup runs one worker: told needs no lock then, and a cluster has few brokers. A broker's pod has the name of its Lease.
func (r *brokerReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "broker", 1).
		For(&coordinationv1.Lease{}).
		Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}).
		WatchesRawSource(source.Channel(r.ended, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile runs at each renewal, as the watch brings it, and at the end of the Lease, by RequeueAfter: a broker that dies
// sends no event. Most runs change nothing and end after the comparison with told.
//
// told is set after all partitions were told, not before: if telling fails half-way, the next try tells all of them again,
// and those that know already write nothing.
func (r *brokerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster, broker, address, ok, err := r.brokerOf(ctx, req.NamespacedName)
	if err != nil || !ok {
		return ctrl.Result{}, err
	}
	state, until, err := r.brokers.look(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if state.Life == placement.Up && !state.Leaving { // the end of one that leaves is no news
		r.connections.watch(req.NamespacedName, state.Epoch, address)
	} else {
		r.connections.drop(req.NamespacedName)
	}
	news := state
	news.Unsettled = 0 // it passes by itself, and is no reason to elect anybody
	if r.told[req.NamespacedName] != news {
		if err := r.tell(ctx, req.Namespace, cluster, broker); err != nil {
			return ctrl.Result{}, err
		}
		r.told[req.NamespacedName] = news
		if news == (placement.Standing{}) {
			delete(r.told, req.NamespacedName) // the Lease is gone, or nobody ever held it
		}
	}
	if err := r.racks.write(ctx, req.NamespacedName, cluster); err != nil { // after the elections, which do not wait for it
		return ctrl.Result{}, err
	}
	if state.Life == placement.Gone && !time.Now().Before(until) {
		return ctrl.Result{}, nil
	}
	// At least a millisecond: until may be past by now, and zero would mean never.
	return ctrl.Result{RequeueAfter: max(time.Until(until), time.Millisecond)}, nil
}

// brokerOf tells whose Lease it is, and where the broker listens ("": it does not say). A Lease that is gone has no label any more, so its name must do. ok is false for a Lease
// that is no broker's, or whose label and name do not agree.
func (r *brokerReconciler) brokerOf(ctx context.Context, key types.NamespacedName) (cluster string, broker int32, address string, ok bool, err error) {
	if cluster, broker, ok = v1alpha1.ParseBrokerLeaseName(key.Name); !ok {
		return "", 0, "", false, nil
	}
	lease := &coordinationv1.Lease{}
	if err := r.Get(ctx, key, lease); err != nil {
		return cluster, broker, "", apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return cluster, broker, lease.Annotations[v1alpha1.AnnotationPeer], lease.Labels[v1alpha1.LabelCluster] == cluster, nil
}

// tell puts all partitions that a broker holds into the partition controller's queue, those that it leads first: they stand still; and then
// its LogCluster into that of its status. It waits while a queue is full, until ctx ends.
func (r *brokerReconciler) tell(ctx context.Context, namespace, cluster string, broker int32) error {
	held := &v1alpha1.PartitionList{}
	err := r.List(ctx, held, client.InNamespace(namespace), client.MatchingFields{byBroker: brokerKey(cluster, broker)})
	if err != nil {
		return fmt.Errorf("list the partitions of broker %d: %w", broker, err)
	}
	slices.SortStableFunc(held.Items, func(a, b v1alpha1.Partition) int {
		return cmp.Compare(ledLast(&a, broker), ledLast(&b, broker))
	})
	for i := range held.Items {
		select {
		case r.partitions <- event.GenericEvent{Object: &held.Items[i]}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	of := &v1alpha1.LogCluster{}
	of.Namespace, of.Name = namespace, cluster
	select {
	case r.clusters <- event.GenericEvent{Object: of}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ledLast orders partitions: 0 for one that the broker leads, 1 for another.
func ledLast(partition *v1alpha1.Partition, broker int32) int {
	if partition.Status.Leader == broker {
		return 0
	}
	return 1
}
