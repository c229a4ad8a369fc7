package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions/status,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// electionsAtOnce is how many partitions are elected at the same time: each waits for the API
// server to write, and when a broker goes all of its partitions wait.
const electionsAtOnce = 32

// electionTimeout bounds a write: an API server that takes requests and answers none must not hold
// up the partitions that are behind.
const electionTimeout = 10 * time.Second

// partitionReconciler elects leaders.
type partitionReconciler struct {
	client.Client
	events  announcer
	brokers *brokers
	told    <-chan event.GenericEvent // partitions of which a broker came or went
	outages *outages
	homes   *homes
}

// setup lets Topics call their partitions at once, not gathered: a new Topic waits for its leaders.
// Leases are not watched here (see brokerReconciler).
func (r *partitionReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "partition", electionsAtOnce).
		For(&v1alpha1.Partition{}).
		// Not at each count in a Topic's status: there are dozens while a broker goes, and a
		// partition looks at its spec alone.
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofTopic),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.told, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile decides and writes, if there is anything to write. That the partition is Ready its
// leader writes, with servingEpoch.
//
// The race with the leader: both read version v, both write; the API server takes the first and
// refuses the other, as it names v. Refused, nothing is tried again here: the winner's write comes
// as an event, and what is decided then has seen it. To patch without a version would put this
// operator's view of the ISR over the leader's.
func (r *partitionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result,
	error) {
	electorate, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if electorate == nil {
		r.outages.forget(req.NamespacedName)
		r.homes.look(req.NamespacedName, false, time.Now())
		return ctrl.Result{}, nil
	}
	var result ctrl.Result
	electorate.preferred, result.RequeueAfter = r.homes.look(req.NamespacedName,
		electorate.couldGoHome(), time.Now())
	elected := electorate.elect()
	before, status := electorate.partition, elected.status
	if equality.Semantic.DeepEqual(before.Status, status) {
		// the leader may have written that it serves
		r.outages.changed(req.NamespacedName, before.Status, status, time.Now())
		return result, nil
	}
	after, err := r.write(ctx, before, status)
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			// somebody was faster; the event of what they did brings us here again
			return result, nil
		}
		return ctrl.Result{}, err
	}
	r.outages.changed(req.NamespacedName, before.Status, status, time.Now())
	if before.Status.LeaderEpoch != status.LeaderEpoch {
		ctrl.LoggerFrom(ctx).Info("leader changed", "before", before.Status.Leader, "leader",
			status.Leader, "leaderEpoch", status.LeaderEpoch)
	}
	r.announce(before, after, elected.unproven)
	return result, nil
}

// write puts a status over the Partition as it was before, by compare-and-swap, and returns what
// became of it.
func (r *partitionReconciler) write(ctx context.Context, before *v1alpha1.Partition,
	status v1alpha1.PartitionStatus) (*v1alpha1.Partition, error) {
	ctx, cancel := context.WithTimeout(ctx, electionTimeout)
	defer cancel()
	after := before.DeepCopy()
	if err := untrack(ctx, r.Client, after); err != nil {
		return nil, err
	}
	after.Status = status
	if err := r.Status().Update(ctx, after); err != nil {
		return nil, fmt.Errorf("update the partition's status: %w", err)
	}
	return after, nil
}

// gather reads all that the election looks at; nil if there is nothing to elect.
func (r *partitionReconciler) gather(ctx context.Context, key types.NamespacedName) (*electorate,
	error) {
	partition := &v1alpha1.Partition{}
	if err := r.Get(ctx, key, partition); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !partition.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	partition = recalled(partition)
	e := &electorate{partition: partition, brokers: map[int32]placement.BrokerState{},
		assignment: metadata.NewID().String()}
	if err := r.gatherTopic(ctx, e); err != nil {
		return nil, err
	}
	for _, id := range named(partition) {
		lease := types.NamespacedName{Namespace: key.Namespace,
			Name: v1alpha1.BrokerLeaseName(partition.Spec.Cluster, id)}
		var err error
		if e.brokers[id], _, err = r.brokers.look(ctx, lease); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// gatherTopic reads what the partition's Topic says of elections. Settings that make no sense allow
// nothing.
func (r *partitionReconciler) gatherTopic(ctx context.Context, e *electorate) error {
	topic, cluster := &v1alpha1.Topic{}, &v1alpha1.LogCluster{}
	spec, namespace := e.partition.Spec, e.partition.Namespace
	err := client.IgnoreNotFound(r.Get(ctx,
		types.NamespacedName{Namespace: namespace, Name: spec.Topic}, topic))
	if err != nil {
		return fmt.Errorf("get the partition's topic: %w", err)
	}
	if topic.Spec.Cluster != spec.Cluster { // or there is none
		return nil
	}
	e.topicPartitions = topic.Spec.Partitions
	err = r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: spec.Cluster}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get the partition's cluster: %w", err)
	}
	if err == nil {
		settings, err := metadata.ResolveSettings(topic.Spec.TopicSettings, cluster)
		e.unclean = err == nil && settings.UncleanElection
	}
	return nil
}

// announce makes an event of lost records only, and of those that may be: when a broker goes,
// thousands of partitions may go offline with it, and the Topics say so once. A partition of one
// replica has no other leader to have: that it came back from an unclean stop is no news.
func (r *partitionReconciler) announce(before, after *v1alpha1.Partition, unproven bool) {
	if unproven && len(after.Spec.Replicas) > 1 {
		r.events.recorder.Eventf(
			after,
			nil,
			corev1.EventTypeWarning,
			v1alpha1.EventUncleanElection,
			"Elect",
			"broker %d leads with leader epoch %d, and may lack records that were acknowledged: no replica that has all of them was up",
			after.Status.Leader,
			after.Status.LeaderEpoch,
		)
	}
	for _, condition := range after.Status.Conditions {
		if condition.Reason == v1alpha1.ReasonReplicaLost {
			r.events.changed(after, before.Status.Conditions, after.Status.Conditions)
		}
	}
}

// ofTopic finds a Topic's partitions, those that outlived an earlier one included. An error is only
// logged, as a watch has nobody to tell; a cache that has its indexes does not fail.
func (r *partitionReconciler) ofTopic(ctx context.Context,
	topic client.Object) []reconcile.Request {
	partitions := &v1alpha1.PartitionList{}
	err := r.List(ctx, partitions, client.InNamespace(topic.GetNamespace()),
		client.MatchingFields{byTopic: topic.GetName()},
		client.UnsafeDisableDeepCopy) // their names are read alone
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list the partitions of a topic", "topic",
			topic.GetName())
	}
	return requests(partitions.Items)
}

// requests are for every object of a list. P is *T, which has the methods that a list's items do
// not have.
func requests[T any, P interface {
	*T
	client.Object
}](items []T) []reconcile.Request {
	var all []reconcile.Request
	for i := range items {
		all = append(
			all,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(P(&items[i]))},
		)
	}
	return all
}
