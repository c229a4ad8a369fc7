package topic

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/watch"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/status,verbs=get;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/finalizers,verbs=update
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions,verbs=get;list;watch;create;patch

// controllerName is the name of the controller in metrics and logs.
const controllerName = "topic"

// Reconciler creates the Partitions of Topics and writes Topic.status. It needs no finalizer: a
// Topic whose records are deleted with it owns its Partitions, and the brokers observe the deletion
// of the Topic and know its reclaimPolicy.
type Reconciler struct {
	client.Client
	Events      conditions.Recorder
	Reports     *reports.Collector
	LastSuccess *opmetrics.LastSuccess

	placements placements
	deleted    laststatus.Cache
	writes     statusWrites
}

// Setup adds the controller to a manager. A change of status alone is no reason to reconcile other
// Topics; events of Partitions are coalesced.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	specChanged := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return watch.NewController(mgr, controllerName, 1).
		For(&v1alpha1.Topic{}).
		Watches(&v1alpha1.Partition{},
			r.deleted.Handler(watch.Coalesce(watch.TopicDelay, watch.TopicOf))).
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofSameName), specChanged).
		Watches(&v1alpha1.LogCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			specChanged).
		WatchesRawSource(source.Channel(r.Reports.Topics(), &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile writes the status in every case, also after a refusal or an error, because users look
// there. The results are named so that the deferred write can add its error. Owners are set before
// Partitions are created, so that a change of reclaimPolicy does not depend on one that cannot be
// created.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result,
	err error) {
	scope, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if scope == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	defer func() {
		if err = errors.Join(err, r.patchStatus(ctx, scope)); err == nil {
			r.LastSuccess.Record(controllerName, req.NamespacedName)
		}
	}()
	scope.refusal = scope.validate()
	if scope.refusal != nil {
		return ctrl.Result{}, nil
	}
	if err := r.setOwners(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.createPartitions(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.reassign(ctx, scope)
}

// forget removes the state of a Topic that does not exist.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.LastSuccess.Forget(controllerName, key)
	r.placements.forget(key)
	r.deleted.Retain(key, func(types.UID) bool { return false })
	r.writes.forget(key)
}

// patchStatus writes the status if it has changed, unless only fast-changing numbers have and they
// were written recently. It is the only writer, so it needs no compare-and-swap. The event is
// recorded after the write; otherwise a failed write would record the same change twice.
func (r *Reconciler) patchStatus(ctx context.Context, scope *scope) error {
	before := scope.topic
	after := before.DeepCopy()
	after.Status = scope.status()
	key, round := client.ObjectKeyFromObject(before), scope.report.RoundNumber()
	if equality.Semantic.DeepEqual(before.Status, after.Status) ||
		r.writes.deferred(key, before.Status, after.Status, round) {
		return nil
	}
	r.writes.record(key, round)
	if err := r.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // the Topic was deleted meanwhile
		}
		return fmt.Errorf("patch the topic's status: %w", err)
	}
	r.Events.ReadyChanged(after, before.Status.Conditions, after.Status.Conditions)
	return nil
}

// ofSameName maps a Topic to all Topics that claim its Kafka name: when it is deleted, one of them
// gets the name.
func (r *Reconciler) ofSameName(ctx context.Context, object client.Object) []reconcile.Request {
	return r.list(ctx, object.GetNamespace(),
		client.MatchingFields{index.ByKafkaName: index.KafkaNameKey(object.(*v1alpha1.Topic))})
}

// ofCluster maps a LogCluster to all its Topics, which depend on its defaults and its number of
// brokers.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.list(ctx, cluster.GetNamespace(),
		client.MatchingFields{index.ByCluster: cluster.GetName()})
}

// list returns requests for Topics. It logs an error, as a map function cannot return one.
func (r *Reconciler) list(ctx context.Context, namespace string,
	fields client.MatchingFields) []reconcile.Request {
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(namespace), fields); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list topics", "namespace", namespace)
	}
	return watch.Requests(topics.Items)
}
