package rebalance

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/peertls"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/operator/rebalance"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets,verbs=get;list;watch;update

const (
	// delay is the time for which events are coalesced before a decision.
	delay = time.Second
	// rest is the minimum time between two decisions, as a multiple of the duration of the decision.
	rest = 10
	// defaultInterval is the time between two decisions if no event occurs. It is needed because the
	// sizes and rates that brokers report cause no events.
	defaultInterval = 15 * time.Second
	// setsAgain is the time between two attempts while a deleted PartitionSet is missing. Without this
	// PartitionSet, a drained broker would seem to have fewer replicas.
	setsAgain = time.Second
)

// Reconciler moves replicas.
type Reconciler struct {
	client.Client
	Sets    *sets.Reader
	Writer  *commit.Writer
	Brokers *brokerstate.Tracker
	Reports *reports.Collector
	Events  conditions.Recorder
	Status  *conditions.Shared
	// Transport is used for requests to brokers without TLS; default http.DefaultTransport.
	Transport http.RoundTripper
	TLS       *peertls.Client
	// Interval is the time between two decisions if no event occurs; default 15 s.
	Interval time.Duration

	runs keyed.Map[rebalance.Run]
	next keyed.Map[time.Time] // earliest time of the next decision
}

// Setup adds the controller to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.Interval = cmp.Or(r.Interval, defaultInterval)
	changed := builder.WithPredicates(predicate.Or[client.Object](
		watch.SpecChanged, predicate.AnnotationChangedPredicate{}))
	ofActive := builder.WithPredicates(predicate.NewPredicateFuncs(r.isActive))
	return watch.NewController(mgr, "rebalance", 1).
		For(&v1alpha1.LogCluster{}, changed).
		Watches(&v1alpha1.PartitionSet{}, watch.Coalesce(delay, watch.ClusterOf), ofActive).
		Complete(r)
}

// isActive reports whether a run is in progress in the LogCluster of a PartitionSet.
func (r *Reconciler) isActive(set client.Object) bool {
	request := watch.ClusterOf(context.Background(), set)[0]
	run, _ := r.runs.Get(request.NamespacedName)
	return run.Phase.Active()
}

// Reconcile makes one decision and executes it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.runs.Delete(req.NamespacedName)
			r.next.Delete(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	next, _ := r.next.Get(req.NamespacedName)
	if left := time.Until(next); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	began := time.Now()
	in, err := r.gather(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if in == nil {
		return ctrl.Result{RequeueAfter: setsAgain}, nil
	}
	before, known := r.runs.Get(req.NamespacedName)
	if !known && cluster.Status.Rebalance != nil {
		before = rebalance.Run{RebalanceStatus: *cluster.Status.Rebalance.DeepCopy()}
	}
	in.Run = before
	decision := rebalance.Decide(in.Input)
	r.next.Set(req.NamespacedName, time.Now().Add(rest*time.Since(began)))
	r.write(ctx, cluster, in, &decision)
	r.runs.Set(req.NamespacedName, decision.Run)
	r.clean(ctx, cluster, in, decision.Clean)
	r.report(cluster, before.RebalanceStatus, &decision.Run.RebalanceStatus)
	if err := r.setStatus(ctx, cluster, &decision); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Interval}, nil
}

// write writes the decided assignments. It removes a move from the run if the assignment has
// changed since the decision, or if the PartitionSet could not be written. The next decision plans
// such a move again. If the response to a write was lost, the cache later shows whether the write
// succeeded.
func (r *Reconciler) write(ctx context.Context, cluster *v1alpha1.LogCluster, in *input,
	decision *rebalance.Decision) {
	bySet := map[int32][]rebalance.Change{}
	for _, change := range decision.Assign {
		_, number := in.sets.Of(in.key(change.Partition))
		bySet[number] = append(bySet[number], change)
	}
	lost := make([][]int, in.sets.Count)
	var group errgroup.Group
	for number, changes := range bySet {
		group.Go(func() error {
			name := sets.Name(types.NamespacedName{Namespace: cluster.Namespace,
				Name: v1alpha1.PartitionSetName(cluster.Name, number)})
			err := r.Writer.ChangeSpec(ctx, name, func(set *partitionset.Set) error {
				lost[number] = assign(set, in, changes)
				return nil
			})
			if err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "failed to write assignments", "set", name)
				for _, change := range changes {
					lost[number] = append(lost[number], change.Partition)
				}
			}
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	for _, partition := range slices.Concat(lost...) {
		key := in.Partitions[partition].Key()
		decision.Run.Moving = slices.DeleteFunc(decision.Run.Moving,
			func(other string) bool { return other == key })
		delete(decision.Run.Targets, key)
	}
}

// assign writes assignments into a set. It returns the partitions whose assignments have changed
// since the decision.
func assign(set *partitionset.Set, in *input, changes []rebalance.Change) (lost []int) {
	for _, change := range changes {
		key := in.key(change.Partition)
		now, _ := set.Get(key)
		if now.Assignment == nil || set.Invalid(key) ||
			!slices.Equal(now.Assignment.Replicas, change.Before) {
			lost = append(lost, change.Partition)
			continue
		}
		next := *now.Assignment
		next.Replicas = change.After
		set.Assign(key, next)
	}
	return lost
}

// report creates an event when a run begins or ends.
func (r *Reconciler) report(cluster *v1alpha1.LogCluster, before v1alpha1.RebalanceStatus,
	now *v1alpha1.RebalanceStatus) {
	began := now.StartTime != nil && !now.StartTime.Equal(before.StartTime)
	switch {
	case began && now.Phase.Active():
		r.Events.Normal(cluster, v1alpha1.EventRebalanceStarted, "Rebalance",
			"Moves of replicas began (%s): %d moves, %d bytes.", now.Trigger, now.Moves,
			now.BytesTotal)
	case now.Phase != before.Phase && now.Phase == v1alpha1.RebalanceBlocked:
		r.Events.Warning(cluster, v1alpha1.ReasonDrainBlocked, "Rebalance", "%s", now.Message)
	case now.Phase != before.Phase && before.Phase.Active() && !now.Phase.Active():
		r.Events.Normal(cluster, v1alpha1.EventRebalanceEnded, "Rebalance",
			"Moves of replicas ended (%s): %d moves, %d bytes. %s", now.Phase, now.MovesDone,
			now.BytesDone, now.Message)
	}
}

// setStatus passes the state of the run and condition Drained to the writer of the status.
func (r *Reconciler) setStatus(ctx context.Context, cluster *v1alpha1.LogCluster,
	decision *rebalance.Decision) error {
	if err := r.Status.SetRebalance(ctx, cluster, decision.Run.DeepCopy()); err != nil {
		return err
	}
	if len(decision.Drained.Requested) == 0 {
		return r.Status.Remove(ctx, cluster, v1alpha1.ConditionDrained)
	}
	return r.Status.Set(ctx, cluster, drainedCondition(decision))
}

// drainedCondition returns condition Drained for a LogCluster with brokers in spec.drain.
func drainedCondition(decision *rebalance.Decision) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionDrained, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonDrained}
	drained := decision.Drained
	switch {
	case drained.Remaining == 0:
		condition.Message = fmt.Sprintf("Brokers %v hold no replicas.%s", drained.Requested,
			conditions.Retained(drained.Retained))
	case drained.Obstacle != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonDrainBlocked
		condition.Message = "No replica is moved. " + drained.Obstacle
	default:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonDraining
		condition.Message = fmt.Sprintf("Brokers %v still hold %d replicas. %s",
			drained.Requested, drained.Remaining, cmp.Or(drained.Waits, decision.Run.Message))
	}
	return condition
}
