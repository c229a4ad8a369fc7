package partition

import (
	"cmp"
	"context"
	"fmt"
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
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions/status,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

const (
	// workers is the number of partitions that are reconciled at the same time. A worker spends
	// most of its time waiting for a write to the API server. When a broker fails, all partitions
	// that it led wait for their turn.
	workers = 32
	// writeTimeout is the timeout of a write. Without it, an API server that accepts requests and
	// does not answer would block the workers, and with them all queued partitions.
	writeTimeout = 10 * time.Second
)

// Reconciler elects the leaders of partitions.
type Reconciler struct {
	client.Client
	Events  conditions.Recorder
	Brokers *brokerstate.Tracker
	// BrokerChanges delivers a Partition when the state of one of its brokers has changed.
	BrokerChanges <-chan event.GenericEvent
	// PreferredLeaderDelay is the time for which a preferred leader must have been able to lead
	// before leadership is moved back to it; default DefaultPreferredLeaderDelay.
	PreferredLeaderDelay time.Duration

	outages   *outages
	preferred *preferredLeaders
}

// Setup adds the controller to a manager and registers its metrics. Events of Topics are not
// coalesced, because the clients of a new Topic wait for its leaders. This controller does not
// watch Leases; see package controllers/broker.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	seconds, err := newElectionSeconds()
	if err != nil {
		return err
	}
	r.outages = newOutages(seconds)
	r.preferred = newPreferredLeaders(cmp.Or(r.PreferredLeaderDelay, DefaultPreferredLeaderDelay))
	return watch.NewController(mgr, "partition", workers).
		For(&v1alpha1.Partition{}).
		// An election depends only on the spec of the Topic. When a broker fails, the status of the
		// Topic changes dozens of times.
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofTopic),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.BrokerChanges, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile runs the election of a partition, and writes the status if it has changed. The
// partition becomes Ready when the leader has written servingEpoch.
//
// The operator and the leader may both read resourceVersion v and then write with this version. The
// API server accepts the first write and rejects the second. Reconcile does not retry a rejected
// write: the event of the accepted write triggers another reconciliation, which uses the new state.
// A patch without a resourceVersion would overwrite the ISR that the leader has written with an
// outdated one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	electorate, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if electorate == nil {
		r.outages.forget(req.NamespacedName)
		r.preferred.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	var result ctrl.Result
	electorate.preferLeader, result.RequeueAfter = r.preferred.observe(req.NamespacedName,
		electorate.preferredEligible(), time.Now())
	elected := electorate.elect()
	before, status := electorate.partition, elected.status
	if equality.Semantic.DeepEqual(before.Status, status) {
		// Nothing to write. But the leader may have reported that it serves, which ends an outage.
		r.outages.observe(req.NamespacedName, before.Status, status, time.Now())
		return result, nil
	}
	after, err := r.write(ctx, before, status)
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return result, nil // the event of the other write triggers another reconciliation
		}
		return ctrl.Result{}, err
	}
	r.outages.observe(req.NamespacedName, before.Status, status, time.Now())
	if before.Status.LeaderEpoch != status.LeaderEpoch {
		ctrl.LoggerFrom(ctx).Info("leader changed", "before", before.Status.Leader, "leader",
			status.Leader, "leaderEpoch", status.LeaderEpoch)
	}
	r.recordEvents(before, after, elected.unclean)
	return result, nil
}

// write writes a new status of a Partition by compare-and-swap with the argument before, the
// version to replace. It returns the written Partition.
func (r *Reconciler) write(ctx context.Context, before *v1alpha1.Partition,
	status v1alpha1.PartitionStatus) (*v1alpha1.Partition, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	after := before.DeepCopy()
	if err := clearManagedFields(ctx, r.Client, after); err != nil {
		return nil, err
	}
	after.Status = status
	if err := r.Status().Update(ctx, after); err != nil {
		return nil, fmt.Errorf("update the partition's status: %w", err)
	}
	return after, nil
}

// gather reads the complete input of an election. It returns nil if the Partition does not exist or
// is being deleted.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*electorate, error) {
	partition := &v1alpha1.Partition{}
	if err := r.Get(ctx, key, partition); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !partition.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	partition = laststatus.Restore(partition)
	e := &electorate{partition: partition, brokers: map[int32]placement.BrokerState{},
		replicaIncarnation: metadata.NewID().String()}
	if err := r.gatherTopic(ctx, e); err != nil {
		return nil, err
	}
	for _, id := range partition.Brokers() {
		lease := types.NamespacedName{Namespace: key.Namespace,
			Name: v1alpha1.BrokerLeaseName(partition.Spec.Cluster, id)}
		var err error
		if e.brokers[id], _, err = r.Brokers.State(ctx, lease); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// gatherTopic sets the fields of an electorate that depend on the Topic and the LogCluster. If
// their settings contradict each other, unclean elections are not allowed.
func (r *Reconciler) gatherTopic(ctx context.Context, e *electorate) error {
	topic, cluster := &v1alpha1.Topic{}, &v1alpha1.LogCluster{}
	spec, namespace := e.partition.Spec, e.partition.Namespace
	err := client.IgnoreNotFound(r.Get(ctx,
		types.NamespacedName{Namespace: namespace, Name: spec.Topic}, topic))
	if err != nil {
		return fmt.Errorf("get the partition's topic: %w", err)
	}
	if topic.Spec.Cluster != spec.Cluster { // also if the Topic does not exist
		return nil
	}
	e.topicPartitions = topic.Spec.Partitions
	err = r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: spec.Cluster}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get the partition's cluster: %w", err)
	}
	if err == nil {
		settings, err := metadata.ResolveSettings(topic.Spec.TopicSettings, cluster)
		e.allowUnclean = err == nil && settings.UncleanElection
	}
	return nil
}

// recordEvents creates events for lost records and unclean elections only. It creates none for
// partitions that go offline: when a broker fails, these may be thousands, and each Topic reports
// them in one event. It creates no event for an unclean restart of the only replica, because no
// other leader was possible.
func (r *Reconciler) recordEvents(before, after *v1alpha1.Partition, unclean bool) {
	if unclean && len(after.Spec.Replicas) > 1 {
		r.Events.Warning(after, v1alpha1.EventUncleanElection, "Elect",
			"Broker %d was elected with leader epoch %d and may lack acknowledged records, because "+
				"no replica that has all of them was up.",
			after.Status.Leader, after.Status.LeaderEpoch)
	}
	for _, condition := range after.Status.Conditions {
		if condition.Reason == v1alpha1.ReasonReplicaLost {
			r.Events.ReadyChanged(after, before.Status.Conditions, after.Status.Conditions)
		}
	}
}

// ofTopic maps a Topic to the Partitions that name it, including retained Partitions of an earlier
// Topic of the same name. A list from an indexed cache should not fail. If it does, ofTopic logs
// the error, because a map function cannot return one.
func (r *Reconciler) ofTopic(ctx context.Context, topic client.Object) []reconcile.Request {
	partitions := &v1alpha1.PartitionList{}
	err := r.List(ctx, partitions, client.InNamespace(topic.GetNamespace()),
		client.MatchingFields{index.ByTopic: topic.GetName()},
		client.UnsafeDisableDeepCopy) // the list is read-only
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the partitions of a topic", "topic",
			topic.GetName())
	}
	return watch.Requests(partitions.Items)
}
