package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions/status,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// electionsAtOnce is how many partitions are elected at the same time: each waits for the API server to write, and when a
// broker goes all of its partitions wait.
const electionsAtOnce = 8

// partitionReconciler elects leaders.
type partitionReconciler struct {
	client.Client
	events  announcer
	brokers *brokers
	told    <-chan event.GenericEvent // partitions of which a broker came or went
	outages *outages
}

// setup lets Topics call their partitions at once, not gathered: a new Topic waits for its leaders. Leases are not watched
// here (see brokerReconciler).
func (r *partitionReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "partition", electionsAtOnce).
		For(&v1alpha1.Partition{}).
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofTopic)).
		WatchesRawSource(source.Channel(r.told, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile decides and writes, if there is anything to write. It runs also after the leader wrote servingEpoch, and says
// Ready then.
//
// The race with the leader: both read version v, both write; the API server takes the first and refuses the other, as it
// names v. Refused, nothing is tried again here: the winner's write comes as an event, and what is decided then has seen it.
// To patch without a version would put this operator's view of the ISR over the leader's.
func (r *partitionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	electorate, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if electorate == nil {
		r.outages.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	before := electorate.partition
	status := electorate.elect()
	if equality.Semantic.DeepEqual(before.Status, status) {
		return ctrl.Result{}, nil
	}
	after := before.DeepCopy()
	after.Status = status
	if err := r.Status().Update(ctx, after); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil // somebody was faster; the event of what they did brings us here again
		}
		return ctrl.Result{}, fmt.Errorf("update the partition's status: %w", err)
	}
	r.outages.changed(req.NamespacedName, before.Status, status, time.Now())
	if before.Status.LeaderEpoch != status.LeaderEpoch {
		ctrl.LoggerFrom(ctx).Info("leader changed", "before", before.Status.Leader, "leader", status.Leader, "leaderEpoch", status.LeaderEpoch)
	}
	r.announce(before, after)
	return ctrl.Result{}, nil
}

// gather reads all that the election looks at; nil if there is nothing to elect.
func (r *partitionReconciler) gather(ctx context.Context, key types.NamespacedName) (*electorate, error) {
	partition := &v1alpha1.Partition{}
	if err := r.Get(ctx, key, partition); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !partition.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	e := &electorate{partition: partition, brokers: map[int32]brokerState{}}
	topic := &v1alpha1.Topic{}
	err := r.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: partition.Spec.Topic}, topic)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the partition's topic: %w", err)
	}
	if err == nil && topic.Spec.Cluster == partition.Spec.Cluster {
		e.topicPartitions = topic.Spec.Partitions
	}
	for _, id := range partition.Spec.Replicas {
		lease := types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.BrokerLeaseName(partition.Spec.Cluster, id)}
		if e.brokers[id], _, err = r.brokers.look(ctx, lease); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// announce makes an event of lost records only: when a broker goes, thousands of partitions may go offline with it, and the
// Topics say so once.
func (r *partitionReconciler) announce(before, after *v1alpha1.Partition) {
	for _, condition := range after.Status.Conditions {
		if condition.Reason == v1alpha1.ReasonReplicaLost {
			r.events.changed(after, before.Status.Conditions, after.Status.Conditions)
		}
	}
}

// ofTopic finds a Topic's partitions, those that outlived an earlier one included. An error is only logged, as a watch has
// nobody to tell; a cache that has its indexes does not fail.
func (r *partitionReconciler) ofTopic(ctx context.Context, topic client.Object) []reconcile.Request {
	partitions := &v1alpha1.PartitionList{}
	err := r.List(ctx, partitions, client.InNamespace(topic.GetNamespace()), client.MatchingFields{byTopic: topic.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list the partitions of a topic", "topic", topic.GetName())
	}
	return requests(partitions.Items)
}

// requests are for every object of a list. P is *T, which has the methods that a list's items do not have.
func requests[T any, P interface {
	*T
	client.Object
}](items []T) []reconcile.Request {
	var all []reconcile.Request
	for i := range items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(P(&items[i]))})
	}
	return all
}
