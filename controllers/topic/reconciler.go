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
	"heartwood.dev/heartwood/internal/metadata"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/status,verbs=get;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/finalizers,verbs=update
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions,verbs=get;list;watch;create;patch

// controllerName is the name of the topic controller in metrics and logs.
const controllerName = "topic"

// Reconciler creates the Partitions of Topics and writes Topic.status. It needs no finalizer for
// the deletion of a Topic: with reclaimPolicy Delete the Topic owns its Partitions, so Kubernetes
// deletes them; and brokers observe the deletion and the reclaimPolicy themselves.
type Reconciler struct {
	client.Client
	Events      conditions.Recorder
	Reports     *reports.Collector
	LastSuccess *opmetrics.LastSuccess

	placements placements
	deleted    laststatus.Cache
	writes     statusWrites
}

// Setup adds the controller to a manager. A change of only the status of a Topic or LogCluster does
// not trigger reconciliations of other Topics. Events of Partitions are coalesced.
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

// Reconcile writes the status in every case, even if the Topic is refused or an error occurs,
// because users look for the cause in the status. The results are named so that the deferred
// function can join its error. Owners are set before Partitions are created, so that a change of
// reclaimPolicy takes effect even if a Partition cannot be created.
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
	if scope.topic.Spec.Partitions == 0 {
		return ctrl.Result{}, r.setPartitions(ctx, scope)
	}
	if err := r.setOwners(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.createPartitions(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.reassign(ctx, scope)
}

// setPartitions writes the number of partitions into a Topic that does not specify it, so that a
// later change of the default does not affect this Topic (ADR 0217). The write is a
// compare-and-swap, so that it cannot replace a number that a user has written meanwhile. Its event
// triggers the reconciliation that creates the Partitions.
func (r *Reconciler) setPartitions(ctx context.Context, s *scope) error {
	changed := s.topic.DeepCopy()
	changed.Spec.Partitions = metadata.NewTopicPartitions(s.topic.KafkaName(), s.cluster)
	err := r.Patch(ctx, changed,
		client.MergeFromWithOptions(s.topic, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("set the topic's number of partitions: %w", err)
	}
	return nil
}

// forget removes the state of a Topic that does not exist.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.LastSuccess.Forget(controllerName, key)
	r.placements.forget(key)
	r.deleted.Retain(key, func(types.UID) bool { return false })
	r.writes.forget(key)
}

// patchStatus writes the status if it has changed. If only fast-changing numbers have changed, it
// may defer the write to a later round; see statusWrites. This controller is the only writer of the
// status, so the write needs no compare-and-swap. The event is created after the write; otherwise a
// failed write, which is repeated, would create two events for one change.
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

// ofSameName maps a Topic to all Topics that claim the same Kafka name: when the Topic is deleted,
// the oldest of the others receives the name.
func (r *Reconciler) ofSameName(ctx context.Context, object client.Object) []reconcile.Request {
	return r.list(ctx, object.GetNamespace(),
		client.MatchingFields{index.ByKafkaName: index.KafkaNameKey(object.(*v1alpha1.Topic))})
}

// ofCluster maps a LogCluster to all its Topics, because their reconciliation depends on the
// LogCluster's topicDefaults and number of brokers.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.list(ctx, cluster.GetNamespace(),
		client.MatchingFields{index.ByCluster: cluster.GetName()})
}

// list returns requests for the Topics with the given index values. It logs an error, because a map
// function cannot return one.
func (r *Reconciler) list(ctx context.Context, namespace string,
	fields client.MatchingFields) []reconcile.Request {
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(namespace), fields); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list topics", "namespace", namespace)
	}
	return watch.Requests(topics.Items)
}
