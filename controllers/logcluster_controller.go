package controllers

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
//
// What the brokers' Role grants the operator must have itself, as nobody can give what he has not:
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=create;delete;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitions/status,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update

// logClusterReconciler applies the objects that make a LogCluster run. They are owned by it, so
// deleting it deletes them; what becomes of the volumes is the StatefulSet's to know (see render).
//
// The status has a reconciler of its own: it changes with every partition, and applying has nothing
// to do with that.
type logClusterReconciler struct {
	client.Client
	settings    render.Settings
	events      announcer
	lastSuccess *lastSuccess
	// settledAfter is for how long a broker is back before the next one is restarted; see the
	// constant.
	settledAfter time.Duration
	// settling is since when pods are ready. Only Reconcile uses it, of which one runs at a time.
	settling settling
}

// setup watches what is owned, so that what others change or delete is put back. Services,
// ServiceAccounts, Roles and RoleBindings come without the predicate: not every API server counts a
// generation for them, and without one it would pass every change over.
func (r *logClusterReconciler) setup(mgr ctrl.Manager) error {
	// A change of status is no reason to apply.
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return newController(mgr, "logcluster", 1).
		For(&v1alpha1.LogCluster{}, changed).
		Owns(&appsv1.StatefulSet{}). // its status, too: a rollout goes on by it
		Owns(&policyv1.PodDisruptionBudget{}, changed).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&v1alpha1.Partition{}, gathered(gatherForCluster, r.whileBusy)).
		Complete(r)
}

// Reconcile applies all objects, in render's order, and stops at the first that is refused: what
// comes later may need it (the pods their account). The event tells the user; the returned error
// makes the queue try again, later and later.
func (r *logClusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result,
	error) {
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.lastSuccess.forget("logcluster", req.NamespacedName)
		delete(r.settling, req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The garbage collector is at work: to apply now would make anew what it took.
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	settings, again, err := r.pace(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, object := range render.Cluster(cluster, settings) {
		if err := apply(ctx, r.Client, cluster, object); err != nil {
			r.events.failed(cluster, err)
			return ctrl.Result{}, err
		}
	}
	r.lastSuccess.now("logcluster", req.NamespacedName)
	return ctrl.Result{RequeueAfter: again}, nil
}
