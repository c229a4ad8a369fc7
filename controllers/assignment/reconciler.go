package assignment

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets/status,verbs=get;update

const (
	// delay is the time for which events are coalesced before a pass.
	delay = 30 * time.Millisecond
	// defaultPause is the minimum time between two passes that write assignments. It limits the number
	// of writes when many Topics are created one after the other. A single Topic never waits for it.
	defaultPause = 200 * time.Millisecond
)

// removeRequestAgain is the delay before the operator tries again to remove a request after a
// conflict.
const removeRequestAgain = 200 * time.Millisecond

const (
	// defaultSizesWait is the maximum time for which the removal of brokers waits for partition sizes.
	defaultSizesWait = time.Minute
	// removalPoll is the interval of passes while replicas on removed brokers cannot move. It is
	// needed because the sizes that brokers report cause no events.
	removalPoll = 5 * time.Second
)

// Reconciler assigns the partitions of Topics to brokers.
type Reconciler struct {
	client.Client
	Live   client.Reader // reader of the API server, without a cache
	Sets   *sets.Reader
	Writer *commit.Writer
	// Racks returns a broker's rack, read from the label of the broker's node. known is false until
	// the node was read. If the node has no such label, or the operator may not read nodes, Racks
	// returns "" and true.
	Racks func(lease types.NamespacedName) (rack string, known bool)
	// RackChanges receives a LogCluster when the rack of one of its brokers becomes known.
	RackChanges <-chan event.GenericEvent
	Events      conditions.Recorder
	Reports     *reports.Collector
	Status      *conditions.Shared
	// SizesWait is the maximum time for which the removal of brokers waits for partition sizes;
	// default 1 min.
	SizesWait time.Duration
	// Pause is the minimum time between two passes that write assignments; default 200 ms.
	Pause time.Duration

	deleted laststatus.Cache
	next    keyed.Map[time.Time] // earliest time of the next pass; lost on restart
	unsized keyed.Map[time.Time] // time since which sizes are unknown; lost on restart
}

// Setup adds the controller to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.Pause = cmp.Or(r.Pause, defaultPause)
	r.SizesWait = cmp.Or(r.SizesWait, defaultSizesWait)
	placementChanged := builder.WithPredicates(predicate.Or(watch.PlacementChanged,
		predicate.Predicate(consentChanged)))
	ofCluster := watch.Coalesce(delay, watch.ClusterOf)
	return watch.NewController(mgr, "assignment", 1).
		For(&v1alpha1.LogCluster{}, placementChanged).
		Watches(&v1alpha1.PartitionSet{}, r.deleted.Handler(ofCluster)).
		Watches(&v1alpha1.Topic{}, ofCluster, builder.WithPredicates(changesAssignments)).
		WatchesRawSource(source.Channel(r.RackChanges, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// changesAssignments selects events in which the spec or an annotation of a Topic changed.
var changesAssignments = predicate.Or[client.Object](watch.SpecChanged,
	predicate.AnnotationChangedPredicate{})

// Reconcile makes one pass over all Topics of a LogCluster. After a conflict with another writer of
// a PartitionSet, the event of the other write triggers another pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	next, _ := r.next.Get(req.NamespacedName)
	if left := time.Until(next); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	in, complete, err := r.gather(ctx, req.NamespacedName)
	if err != nil || !complete {
		return ctrl.Result{}, err
	}
	plan := newPlan(in)
	r.noteUnsized(req.NamespacedName, plan.unsized)
	if err := r.verify(ctx, req.NamespacedName, in, &plan); err != nil {
		return ctrl.Result{}, err
	}
	if len(plan.assign) > 0 {
		r.next.Set(req.NamespacedName, time.Now().Add(r.Pause))
	}
	name := func(number int32) string {
		return sets.Name(types.NamespacedName{Namespace: req.Namespace,
			Name: v1alpha1.PartitionSetName(req.Name, number)})
	}
	if err := r.write(ctx, name, in, plan); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.settle(ctx, in); err != nil {
		return ctrl.Result{}, err
	}
	again := time.Duration(0)
	for _, topic := range plan.taken {
		removed, err := r.removeRequest(ctx, topic)
		if err != nil {
			return ctrl.Result{}, err
		}
		if !removed {
			again = removeRequestAgain
		}
	}
	if in.cluster == nil {
		r.next.Delete(req.NamespacedName)
		r.unsized.Delete(req.NamespacedName)
		return ctrl.Result{}, r.deleteEmpty(ctx, in.sets)
	}
	if plan.waits && (again == 0 || in.racksAwaited < again) {
		again = in.racksAwaited
	}
	if poll := min(removalPoll, r.SizesWait); plan.removal.Reason != "" &&
		(again == 0 || poll < again) {
		again = poll
	}
	if err := r.Status.SetRemoval(ctx, in.cluster, plan.removal); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// gather reads the input of a pass. If PartitionSets are missing, it creates them and complete is
// false; the events of their creation trigger another pass.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (in input,
	complete bool, err error) {
	if in.sets, err = r.Sets.OfCluster(ctx, key.Namespace, key.Name); err != nil {
		return in, false, err
	}
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, key, cluster); err == nil {
		in.cluster = cluster
	} else if !apierrors.IsNotFound(err) {
		return in, false, fmt.Errorf("get the LogCluster: %w", err)
	}
	for number := range in.sets.Count {
		if set := in.sets.Objects[number]; set != nil {
			r.deleted.Observe(set)
		} else if in.cluster == nil {
			r.deleted.Forget(types.NamespacedName{Namespace: key.Namespace,
				Name: v1alpha1.PartitionSetName(key.Name, number)})
		}
	}
	if in.cluster != nil {
		if complete, err := r.createMissing(ctx, key, in.sets); err != nil || !complete {
			return in, false, err
		}
	}
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(key.Namespace),
		client.MatchingFields{index.ByCluster: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return in, false, fmt.Errorf("list topics: %w", err)
	}
	for i := range topics.Items {
		in.topics = append(in.topics, &topics.Items[i])
	}
	racks, err := r.racks(ctx, key)
	if err != nil {
		return in, false, err
	}
	in.racks = racks.brokers
	in.disks, in.awaitsSizes = newDisks(r.Reports.Latest(key)), r.awaitsSizes(key)
	if in.cluster != nil {
		in.racksAwaited = racks.awaited(in.cluster.Spec.Brokers, time.Now())
	}
	return in, true, nil
}

// removeRequest removes the annotation with a user's request for reassignments. The write is a
// compare-and-swap, so it cannot remove a newer request. removed is false after a conflict. A
// change of the Topic's status also causes a conflict, but triggers no other pass.
func (r *Reconciler) removeRequest(ctx context.Context, topic *v1alpha1.Topic) (removed bool,
	err error) {
	changed := topic.DeepCopy()
	delete(changed.Annotations, v1alpha1.AnnotationReassign)
	err = r.Patch(ctx, changed,
		client.MergeFromWithOptions(topic, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("remove the request of topic %s: %w", topic.Name, err)
	}
	return true, nil
}

// awaitsSizes reports whether the removal of brokers still waits for partition sizes.
func (r *Reconciler) awaitsSizes(cluster types.NamespacedName) bool {
	since, known := r.unsized.Get(cluster)
	return !known || time.Since(since) < r.SizesWait
}

// noteUnsized records the time since which sizes are unknown.
func (r *Reconciler) noteUnsized(cluster types.NamespacedName, unsized bool) {
	if _, known := r.unsized.Get(cluster); !unsized {
		r.unsized.Delete(cluster)
	} else if !known {
		r.unsized.Set(cluster, time.Now())
	}
}
