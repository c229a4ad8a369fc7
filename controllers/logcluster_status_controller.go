package controllers

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters/status,verbs=get;patch

// logClusterStatusReconciler says in a LogCluster's status how it is.
type logClusterStatusReconciler struct {
	client.Client
	events  announcer
	brokers *brokers
	told    <-chan event.GenericEvent // LogClusters of which a broker came or went
}

func (r *logClusterStatusReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "logcluster-status", 1).
		For(&v1alpha1.LogCluster{}).
		Owns(&appsv1.StatefulSet{}).
		Watches(&v1alpha1.Topic{}, gathered(gatherForCluster, clusterOf)).
		Watches(&v1alpha1.Partition{}, gathered(gatherForCluster, clusterOf)).
		Watches(&corev1.Pod{}, gathered(gatherForCluster, clusterOf)).
		WatchesRawSource(source.Channel(r.told, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// clusterOf finds the LogCluster of a Topic, a Partition or a broker's pod; spec.cluster cannot
// change, so there is no former one to tell.
func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	var name string
	switch object := object.(type) {
	case *v1alpha1.Topic:
		name = object.Spec.Cluster
	case *v1alpha1.Partition:
		name = object.Spec.Cluster
	case *corev1.Pod:
		name = object.Labels[v1alpha1.LabelCluster]
	}
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}},
	}
}

// logClusterScope is all that a LogCluster's status speaks of.
type logClusterScope struct {
	cluster    *v1alpha1.LogCluster
	brokers    *appsv1.StatefulSet // zero if there is none yet
	topics     []v1alpha1.Topic
	partitions []v1alpha1.Partition
	ready      int32   // brokers whose pods are ready and that renew their Leases
	silent     []int32 // those whose pods are said to be ready, and that do not, sorted
}

// Reconcile writes the status when it is another than before. It is the only writer of it, so a
// patch without compare-and-swap will do, and what is in the cache but late is mended by the event
// that makes it current.
func (r *logClusterStatusReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result,
	error) {
	scope, err := r.gather(ctx, req.NamespacedName)
	if err != nil || scope == nil {
		return ctrl.Result{}, err
	}
	before := scope.cluster
	after := before.DeepCopy()
	after.Status = scope.status()
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.events.changed(after, before.Status.Conditions, after.Status.Conditions)
	return ctrl.Result{}, nil
}

// gather reads all from the cache; nil if there is no such LogCluster.
func (r *logClusterStatusReconciler) gather(ctx context.Context,
	key types.NamespacedName) (*logClusterScope, error) {
	scope := &logClusterScope{cluster: &v1alpha1.LogCluster{}, brokers: &appsv1.StatefulSet{}}
	if err := r.Get(ctx, key, scope.cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	statefulSet := types.NamespacedName{Namespace: key.Namespace,
		Name: render.BrokersName(key.Name)}
	if err := r.Get(ctx, statefulSet, scope.brokers); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers: %w", err)
	}
	topics, partitions := &v1alpha1.TopicList{}, &v1alpha1.PartitionList{}
	// nothing is written into them
	of := []client.ListOption{client.InNamespace(key.Namespace),
		client.MatchingFields{byCluster: key.Name}, client.UnsafeDisableDeepCopy}
	if err := r.List(ctx, topics, of...); err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	if err := r.List(ctx, partitions, of...); err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	scope.topics, scope.partitions = topics.Items, partitions.Items
	return scope, r.gatherBrokers(ctx, key, scope)
}

// gatherBrokers counts the brokers that are up. A pod alone does not tell: when a node loses its
// power, Kubernetes shows its pods as ready for most of a minute, while their brokers' Leases ran
// out after seconds and others lead.
func (r *logClusterStatusReconciler) gatherBrokers(ctx context.Context, key types.NamespacedName,
	scope *logClusterScope) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(key.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: key.Name}); err != nil {
		return fmt.Errorf("list the brokers' pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		// pods and Leases have the same names
		cluster, id, ok := v1alpha1.ParseBrokerLeaseName(pod.Name)
		if !ok || cluster != key.Name || !podReady(pod) {
			continue
		}
		standing, _, err := r.brokers.look(ctx, client.ObjectKeyFromObject(pod))
		if err != nil {
			return err
		}
		if standing.Liveness == placement.Down {
			scope.silent = append(scope.silent, id)
		} else {
			scope.ready++
		}
	}
	slices.Sort(scope.silent)
	return nil
}

// status is the whole status anew but for the times of its conditions, which are kept from before.
func (s *logClusterScope) status() v1alpha1.LogClusterStatus {
	status := *s.cluster.Status.DeepCopy()
	status.ObservedGeneration = s.cluster.Generation
	status.Bootstrap = render.Bootstrap(s.cluster)
	status.ReadyBrokers = s.ready
	status.Topics = int32(len(s.topics))
	status.Partitions, status.UnderReplicated = s.count()
	draining := s.draining()
	status.Draining = draining.replicas
	for _, condition := range []metav1.Condition{s.readiness(status), s.scaled(draining)} {
		condition.ObservedGeneration = s.cluster.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

// count counts partitions of Topics that are there; those that outlived theirs serve nobody.
func (s *logClusterScope) count() (all, under int32) {
	sizes := map[string]int32{}
	for _, topic := range s.topics {
		sizes[topic.Name] = topic.Spec.Partitions
	}
	for i := range s.partitions {
		spec := &s.partitions[i].Spec
		if spec.Index >= sizes[spec.Topic] {
			continue
		}
		all++
		if underReplicated(&s.partitions[i]) {
			under++
		}
	}
	return all, under
}

// readiness is condition Ready. A StatefulSet whose controller has not seen the latest spec
// (observedGeneration) counts pods of the one before: they make no cluster ready that was not. One
// that was stays so for that moment, as each step of a rollout has one.
func (s *logClusterScope) readiness(status v1alpha1.LogClusterStatus) metav1.Condition {
	switch {
	case !s.cluster.DeletionTimestamp.IsZero():
		return notReady(v1alpha1.ReasonDeleting,
			fmt.Sprintf("the LogCluster is being deleted; its finalizers are %v",
				s.cluster.Finalizers))
	case status.ReadyBrokers >= s.cluster.Spec.Brokers && s.brokers.Status.ObservedGeneration < s.brokers.Generation &&
		meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady):
	case status.ReadyBrokers < s.cluster.Spec.Brokers || s.brokers.Status.ObservedGeneration < s.brokers.Generation:
		message := fmt.Sprintf(
			"%d of %d brokers are ready: kubectl get pods -n %s -l %s=%s tells more",
			status.ReadyBrokers,
			s.cluster.Spec.Brokers,
			s.cluster.Namespace,
			v1alpha1.LabelCluster,
			s.cluster.Name,
		)
		if len(s.silent) > 0 {
			message += fmt.Sprintf(
				"; brokers %v do not renew their Leases, whatever Kubernetes says of their pods",
				s.silent,
			)
		}
		return notReady(v1alpha1.ReasonBrokersNotReady, message)
	}
	return ready("every broker is up")
}
