package logcluster

import (
	"cmp"
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
//
// The operator needs every permission that the brokers' Role grants: RBAC does not allow a user to
// grant a permission that the user does not have.
// +kubebuilder:rbac:groups=heartwood.dev,resources=topics,verbs=create;delete;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logusers,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets/status,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update

// controllerName is the name of Reconciler's controller in metrics and logs.
const controllerName = "logcluster"

// Reconciler applies the objects that run a LogCluster. The LogCluster owns these objects, so
// Kubernetes deletes them with it. The StatefulSet's settings determine whether the volumes are
// deleted too (see render).
type Reconciler struct {
	client.Client
	Sets        *sets.Reader
	Settings    render.Settings
	Events      conditions.Recorder
	LastSuccess *opmetrics.LastSuccess
	// SettleTime is the time for which a restarted broker must be ready before the next broker is
	// restarted; default 30 s.
	SettleTime time.Duration

	ready readiness
}

// Setup adds the controller to a manager. It watches the owned objects, so that it can revert
// changes and deletions by others. Services, ServiceAccounts, Roles and RoleBindings are watched
// without the generation predicate: some API servers do not maintain metadata.generation for these
// kinds, and the predicate would then drop every change.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.SettleTime = cmp.Or(r.SettleTime, defaultSettleTime)
	// A change that affects only the status requires no apply.
	specChanged := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return watch.NewController(mgr, controllerName, 1).
		For(&v1alpha1.LogCluster{}, specChanged).
		// including changes of its status, which continue a rolling update
		Owns(&appsv1.StatefulSet{}).
		Owns(&policyv1.PodDisruptionBudget{}, specChanged).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&networkingv1.NetworkPolicy{}, specChanged).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Secret{}, watch.Coalesce(watch.ClusterDelay, ofShard)).
		Watches(&v1alpha1.PartitionSet{}, watch.Coalesce(watch.ClusterDelay, r.ofChangingCluster)).
		Complete(r)
}

// Reconcile applies all objects in the order in which package render returns them. It stops at the
// first error, because later objects may depend on the failed one, as pods depend on their
// ServiceAccount. It creates an event for the error; the queue retries with backoff.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.LastSuccess.Forget(controllerName, req.NamespacedName)
		r.ready.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The garbage collector is deleting the objects; an apply would create them again.
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if err := cluster.Spec.Listeners.Validate(); err != nil {
		// Condition ListenersReady says why nothing is applied.
		ctrl.LoggerFrom(ctx).Info("rejected a LogCluster with invalid listeners", "error",
			err.Error())
		return ctrl.Result{}, nil
	}
	settings, requeueAfter, err := r.pace(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, object := range render.Cluster(cluster, settings) {
		if err := apply(ctx, r.Client, cluster, object); err != nil {
			r.Events.Warning(cluster, v1alpha1.EventApplyFailed, "Apply",
				"The operator failed to %v; it retries.", err)
			return ctrl.Result{}, err
		}
	}
	if err := r.rewriteListeners(ctx, cluster); err != nil {
		return ctrl.Result{}, err
	}
	r.LastSuccess.Record(controllerName, req.NamespacedName)
	return ctrl.Result{RequeueAfter: requeueAfter}, nil
}
