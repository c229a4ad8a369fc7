package watch

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TopicDelay and ClusterDelay are the times for which events of PartitionSets are coalesced before
// the Topic or LogCluster is reconciled. The statuses of both summarize the partitions. When one of
// three brokers fails, a third of all partitions change at once. If each change updated these
// statuses, the updates would cost more than the elections, because every broker receives every
// update.
const (
	TopicDelay   = 100 * time.Millisecond
	ClusterDelay = 500 * time.Millisecond
)

// retryMax is the longest time between two attempts to reconcile a resource. The default of
// controller-runtime is 17 minutes. With this default, after a longer outage of the API server,
// condition Applied would stay False for more than the 15 minutes of alert HeartwoodSpecNotApplied,
// although the spec is valid.
const retryMax = time.Minute

// retries returns controller-runtime's default backoff, limited to retryMax.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			5*time.Millisecond, retryMax),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{
			Limiter: rate.NewLimiter(rate.Limit(10), 100)},
	)
}

// NewController returns a builder for a controller with the given number of workers. The controller
// logs less than controller-runtime's default: it logs its start only at debug level, and each line
// contains the resource's name only once.
func NewController(mgr ctrl.Manager, name string, workers int) *ctrl.Builder {
	logger := mgr.GetLogger().WithValues("controller", name)
	return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             retries(),
		LogConstructor: func(request *ctrl.Request) logr.Logger {
			if request == nil {
				return logger.V(1)
			}
			return logger.WithValues("namespace", request.Namespace, "name", request.Name)
		},
	})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Coalesce returns an event handler. The handler uses find to map the object of an event to
// resources, and queues these resources after a delay. The queue contains at most one entry per
// resource, with the earliest requested time, so further events during the delay neither add
// entries nor postpone the entry. The old object of an update is mapped only if it is not the same
// object as the new one (see SpecChanged), because the field that find uses (cluster) is immutable.
func Coalesce(delay time.Duration, find handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, object client.Object, to queue) {
		for _, request := range find(ctx, object) {
			to.AddAfter(request, delay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, to queue) {
			add(ctx, e.Object, to)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, to queue) {
			if replaced(e) {
				add(ctx, e.ObjectOld, to)
			}
			add(ctx, e.ObjectNew, to)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, to queue) {
			add(ctx, e.Object, to)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent, to queue) {
			add(ctx, e.Object, to)
		},
	}
}

// ClusterOf maps a Topic, a PartitionSet, a LogUser, a broker's pod or Lease, or a Secret to its
// LogCluster.
func ClusterOf(_ context.Context, object client.Object) []reconcile.Request {
	var name string
	switch object := object.(type) {
	case *v1alpha1.Topic:
		name = object.Spec.Cluster
	case *v1alpha1.PartitionSet:
		name = object.Spec.Cluster
	case *v1alpha1.LogUser:
		name = object.Spec.Cluster
	case *corev1.Pod, *corev1.Secret, *coordinationv1.Lease:
		name = object.GetLabels()[v1alpha1.LabelCluster]
	}
	return request(object.GetNamespace(), name)
}

func request(namespace, name string) []reconcile.Request {
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}},
	}
}

// Requests returns a request for each item of a list. T is the type of the items. P is *T, because
// only the pointer type has the methods of client.Object.
func Requests[T any, P interface {
	*T
	client.Object
}](items []T) []reconcile.Request {
	var all []reconcile.Request
	for i := range items {
		key := client.ObjectKeyFromObject(P(&items[i]))
		all = append(all, reconcile.Request{NamespacedName: key})
	}
	return all
}

// Send sends a resource to the channel source of another controller, which queues it. It blocks
// until the controller has received the resource or ctx ends.
func Send(ctx context.Context, to chan<- event.GenericEvent, object client.Object) error {
	select {
	case to <- event.GenericEvent{Object: object}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
