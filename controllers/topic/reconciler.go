package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics/status,verbs=get;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets,verbs=get;list;watch

const (
	// controllerName is the name of the topic controller in metrics and logs.
	controllerName = "topic"
	// workers is the number of Topics that are reconciled at the same time. A worker spends most of
	// its time waiting for a write to the API server.
	workers = 4
)

// Reconciler writes Topic.status. It needs no finalizer for the deletion of a Topic: package
// assignment and the brokers observe the deletion themselves.
type Reconciler struct {
	client.Client
	Events      conditions.Recorder
	Brokers     *brokerstate.Tracker
	Sets        *sets.Reader
	Reports     *reports.Collector
	LastSuccess *opmetrics.LastSuccess
	// BrokerChanges delivers a LogCluster when the state of one of its brokers has changed.
	BrokerChanges <-chan event.GenericEvent
	Pace          Pace

	writes    statusWrites
	unsettled unsettledTopics
}

// Setup adds the controller to a manager. Status-only changes of a Topic or LogCluster do not
// trigger reconciliations of other Topics. Events of PartitionSets are coalesced.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.Pace = r.Pace.withDefaults()
	specChanged := builder.WithPredicates(watch.SpecChanged)
	return watch.NewController(mgr, controllerName, workers).
		For(&v1alpha1.Topic{}).
		Watches(&v1alpha1.PartitionSet{}, sets.TopicsOf(watch.TopicDelay)).
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofSameName), specChanged).
		Watches(&v1alpha1.LogCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(watch.PlacementChanged)).
		Watches(&v1alpha1.LogCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(bootstrapped)).
		Watches(&v1alpha1.LogCluster{}, watch.Coalesce(watch.TopicDelay, r.withProblems),
			builder.WithPredicates(lostVolumesChanged)).
		WatchesRawSource(source.Channel(r.Reports.Topics(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.BrokerChanges,
			watch.Coalesce(watch.TopicDelay, r.withProblems))).
		Complete(r)
}

// Reconcile always writes the status, even if the Topic is refused or an error occurs, because
// users look for the cause in the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.LastSuccess.Begin(controllerName, req.NamespacedName)
	scope, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if scope == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if scope.refusal == nil && scope.topic.Spec.Partitions == 0 {
		err = r.setPartitions(ctx, scope)
	}
	again, statusErr := r.patchStatus(ctx, scope)
	if err = errors.Join(err, statusErr); err != nil {
		return ctrl.Result{}, err
	}
	r.LastSuccess.Record(controllerName, req.NamespacedName)
	return ctrl.Result{RequeueAfter: again}, nil
}

// setPartitions writes the number of partitions into a Topic that does not specify it. A later
// change of the default then does not affect this Topic (ADR 0217). The write is a
// compare-and-swap, because a user may have written a number at the same time. The event of the
// write triggers the pass that assigns the partitions.
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
	r.writes.forget(key)
	r.unsettled.forget(key)
}

// patchStatus writes the status if it has changed. It can defer the write; the caller must then
// repeat the reconciliation after the returned time. If only fast-changing numbers have changed,
// the write waits for a later round of reports instead; see statusWrites. This controller is the
// only writer of the status, so the write needs no compare-and-swap. Events are created after the
// write, because otherwise a failed and repeated write would create two events for one change.
func (r *Reconciler) patchStatus(ctx context.Context, scope *scope) (again time.Duration,
	err error) {
	before := scope.topic
	after := before.DeepCopy()
	after.Status = scope.status()
	key, round, now := client.ObjectKeyFromObject(before), scope.report.RoundNumber(), time.Now()
	wait := r.unsettled.wait(key, before.Status, after.Status, settled(after.Status), r.Pace, now)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return 0, nil
	}
	if wait > 0 || r.writes.deferred(key, before.Status, after.Status, round) {
		return wait, nil
	}
	r.writes.record(key, round)
	r.unsettled.record(key, now)
	if err := r.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil // the Topic has been deleted since it was read
		}
		return 0, fmt.Errorf("patch the topic's status: %w", err)
	}
	r.Events.ReadyChanged(after, before.Status.Conditions, after.Status.Conditions)
	r.recordLoss(before, after)
	return 0, nil
}

// recordLoss creates an event if a partition's records were lost.
func (r *Reconciler) recordLoss(before, after *v1alpha1.Topic) {
	lost := func(topic *v1alpha1.Topic) int {
		return slices.IndexFunc(topic.Status.Problems, func(p v1alpha1.PartitionProblem) bool {
			return p.Reason == v1alpha1.ReasonReplicaLost
		})
	}
	if first := lost(after); first >= 0 && lost(before) < 0 {
		problem := after.Status.Problems[first]
		r.Events.Warning(after, v1alpha1.ReasonReplicaLost, "Elect", "Partition %d: %s",
			problem.Partition, problem.Message)
	}
}

// ofSameName maps a Topic to all Topics whose Kafka name is the same or collides. When the Topic is
// deleted, the oldest of the other Topics receives the name.
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

// lostVolumesChanged drops events of LogClusters whose lost volumes have not changed.
var lostVolumesChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, // events of all Topics follow
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(e.ObjectOld.(*v1alpha1.LogCluster).Status.LostVolumes,
			e.ObjectNew.(*v1alpha1.LogCluster).Status.LostVolumes)
	},
}

// bootstrapped selects the event of a LogCluster with which it becomes possible for clients to
// connect for the first time.
var bootstrapped = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, // events of all Topics follow
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !e.ObjectOld.(*v1alpha1.LogCluster).Status.Bootstrapped &&
			e.ObjectNew.(*v1alpha1.LogCluster).Status.Bootstrapped
	},
}

// withProblems maps a LogCluster to those of its Topics whose status has problems. What these
// Topics wait for depends on the state of brokers.
func (r *Reconciler) withProblems(ctx context.Context,
	cluster client.Object) []reconcile.Request {
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(cluster.GetNamespace()),
		client.MatchingFields{index.ByCluster: cluster.GetName()},
		client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list topics", "cluster", cluster.GetName())
	}
	return watch.Requests(slices.DeleteFunc(topics.Items,
		func(topic v1alpha1.Topic) bool { return len(topic.Status.Problems) == 0 }))
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
