package controllers

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
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/status,verbs=get;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/finalizers,verbs=update
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions,verbs=get;list;watch;create;patch

// topicReconciler makes the Partitions of Topics, and says in their status how they are. It needs
// no finalizer: Partitions of a Topic that takes its records with it are owned by it, and the
// brokers see the Topic go and know its reclaimPolicy.
type topicReconciler struct {
	client.Client
	events      announcer
	reports     *reporter
	lastSuccess *lastSuccess
	// placed is where the partitions of each Topic were last seen. Only Reconcile uses it, of which
	// one runs at a time.
	placed map[types.NamespacedName]placed
	// departed are the last statuses of Partitions that were deleted.
	departed *departed
	pace     pace
}

// setup runs one worker: placing counts what each broker holds, and two Topics placed at once would
// both choose the emptiest. Changes of status are no reason to look at other Topics, or at all
// Topics of a cluster; Partitions come gathered.
func (r *topicReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "topic", 1).
		For(&v1alpha1.Topic{}).
		Watches(&v1alpha1.Partition{}, r.departed.watched(gathered(gatherForTopic, ofPartition))).
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofSameName),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.LogCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.reports.topics, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile writes the status in any case, refused or failed: that is where a user looks. The named
// results let the deferred write add its error. Partitions are owned before more are made, so that
// a change of reclaimPolicy does not hang on one that cannot be made.
func (r *topicReconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result,
	err error) {
	scope, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if scope == nil {
		r.lastSuccess.forget("topic", req.NamespacedName)
		delete(r.placed, req.NamespacedName)
		r.departed.keep(req.NamespacedName, func(types.UID) bool { return false })
		delete(r.pace, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	defer func() {
		if err = errors.Join(err, r.patchStatus(ctx, scope)); err == nil {
			r.lastSuccess.now("topic", req.NamespacedName)
		}
	}()
	scope.refusal = scope.refuse()
	if scope.refusal != nil {
		return ctrl.Result{}, nil
	}
	if err := r.own(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.makePartitions(ctx, scope); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.fit(ctx, scope)
}

// patchStatus writes the status when it is another than before, and not only in numbers that were
// written a moment ago. Nobody else writes it, so it needs no compare-and-swap; the event goes out
// after the write, or a write that fails would tell the same change twice.
func (r *topicReconciler) patchStatus(ctx context.Context, scope *topicScope) error {
	before := scope.topic
	after := before.DeepCopy()
	after.Status = scope.status()
	key, round := client.ObjectKeyFromObject(before), scope.report.number()
	if equality.Semantic.DeepEqual(before.Status, after.Status) ||
		r.pace.holds(key, before.Status, after.Status, round) {
		return nil
	}
	r.pace[key] = round
	if err := r.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it was deleted meanwhile
		}
		return fmt.Errorf("patch the topic's status: %w", err)
	}
	r.events.changed(after, before.Status.Conditions, after.Status.Conditions)
	return nil
}

// ofPartition finds the Topic that a Partition is named after, be it there or not.
func ofPartition(_ context.Context, object client.Object) []reconcile.Request {
	partition := object.(*v1alpha1.Partition)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: partition.Namespace,
		Name: partition.Spec.Topic}}}
}

// ofSameName finds the Topics that claim a Topic's name: when it goes, one of them gets it.
func (r *topicReconciler) ofSameName(ctx context.Context,
	object client.Object) []reconcile.Request {
	return r.list(ctx, object.GetNamespace(),
		client.MatchingFields{byKafkaName: kafkaNameKey(object.(*v1alpha1.Topic))})
}

// ofCluster finds all Topics of a LogCluster: its defaults and its number of brokers are theirs,
// too.
func (r *topicReconciler) ofCluster(ctx context.Context,
	cluster client.Object) []reconcile.Request {
	return r.list(ctx, cluster.GetNamespace(), client.MatchingFields{byCluster: cluster.GetName()})
}

// list returns requests for Topics. An error is only logged, as a watch has nobody to tell.
func (r *topicReconciler) list(ctx context.Context, namespace string,
	fields client.MatchingFields) []reconcile.Request {
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(namespace), fields); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list topics", "namespace", namespace)
	}
	return requests(topics.Items)
}
