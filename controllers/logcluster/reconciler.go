package logcluster

import (
	"cmp"

	"heartwood.dev/heartwood/controllers/logcluster/apply"
	"heartwood.dev/heartwood/controllers/logcluster/memory"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
	"heartwood.dev/heartwood/controllers/logcluster/replace"

	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/roll"
	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=tlsroutes,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
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
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=localsubjectaccessreviews,verbs=create

// resyncInterval is the time after which a LogCluster is reconciled again although nothing has
// changed. Therefore, if the last success is older than this, reconciliations fail.
const resyncInterval = 10 * time.Minute

// controllerName is the name of Reconciler's controller in metrics and logs.
const controllerName = "logcluster"

// Reconciler applies the objects that run a LogCluster. The LogCluster owns these objects, so
// Kubernetes deletes them with the LogCluster. The StatefulSet's settings determine whether the
// volumes are deleted too (see render).
type Reconciler struct {
	client.Client
	Facts       facts.Gatherer
	Apply       apply.Applier
	Roll        roll.Roller
	Replace     *replace.Replacer
	LastSuccess *opmetrics.LastSuccess
	Outcomes    *outcome.Outcomes
	// Changed receives a LogCluster when its outcome has changed.
	Changed chan<- event.GenericEvent

	remembered keyed.Map[*memory.Memory]
}

// Setup adds the controller to a manager. The controller watches the owned objects in order to
// revert other clients' changes and deletions. Services, ServiceAccounts, Roles and RoleBindings
// are watched without the generation predicate: some API servers do not maintain
// metadata.generation for these kinds, and the predicate would then drop every change.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	// A change that affects only the status requires no apply.
	specChanged := builder.WithPredicates(watch.SpecChanged)
	// Annotations pause changes and request restarts.
	annotated := builder.WithPredicates(predicate.Or[client.Object](
		watch.SpecChanged, predicate.AnnotationChangedPredicate{}))
	restartRequested := builder.WithPredicates(predicate.NewPredicateFuncs(
		func(pod client.Object) bool {
			return pod.GetAnnotations()[v1alpha1.AnnotationRestart] != "" ||
				len(pod.GetFinalizers()) > 0
		}))
	return watch.NewController(mgr, controllerName, 1).
		For(&v1alpha1.LogCluster{}, annotated).
		Watches(&corev1.Pod{}, watch.Coalesce(watch.ClusterDelay, watch.ClusterOf),
			restartRequested).
		// Changes of the StatefulSet's status count, too, because they continue a rolling update.
		Owns(&appsv1.StatefulSet{}).
		// Changes of the claims' status count, too, because they report the progress of a resize.
		Watches(&corev1.PersistentVolumeClaim{}, watch.Coalesce(watch.ClusterDelay, ofClaim)).
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

// ofChangingCluster maps a PartitionSet to its LogCluster, but only while a change of the set can
// require an apply: while brokers are being drained, or when the PodDisruptionBudget must change. A
// rolling update does not need such events, because it continues at intervals.
func (r *Reconciler) ofChangingCluster(ctx context.Context,
	set client.Object) []reconcile.Request {
	found := watch.ClusterOf(ctx, set)
	cluster, budget := &v1alpha1.LogCluster{}, &policyv1.PodDisruptionBudget{}
	key := types.NamespacedName{Namespace: set.GetNamespace(),
		Name: render.BrokersName(found[0].Name)}
	if r.Get(ctx, found[0].NamespacedName, cluster) != nil || r.Get(ctx, key, budget) != nil {
		return nil // not created yet; the creation triggers a reconciliation
	}
	brokers := &appsv1.StatefulSet{}
	if r.Get(ctx, key, brokers) != nil {
		return nil
	}
	drains := brokers.Spec.Replicas != nil && *brokers.Spec.Replicas > cluster.Spec.Brokers
	if allowed := budget.Spec.MaxUnavailable; !drains && allowed != nil &&
		(allowed.IntVal == 0) == r.isUnderReplicated(ctx, set.(*v1alpha1.PartitionSet)) {
		return nil // this set alone requires no other budget
	}
	s, err := r.Facts.Gather(ctx, cluster)
	if err != nil {
		return found
	}
	if allowed := budget.Spec.MaxUnavailable; !drains && allowed != nil &&
		allowed.IntVal == render.MaxUnavailable(apply.SettingsOf(s, r.Apply.Settings, "")) {
		return nil
	}
	return found
}

// isUnderReplicated reports whether a partition of an existing Topic in a set is under-replicated.
// It reads only the set of the event. Most events do not need Facts, which contain all sets.
func (r *Reconciler) isUnderReplicated(ctx context.Context, set *v1alpha1.PartitionSet) bool {
	for key, entry := range r.Facts.Sets.Decode(ctx, set).All() {
		if !entry.UnderReplicated() {
			continue
		}
		topic := &v1alpha1.Topic{}
		name := types.NamespacedName{Namespace: set.Namespace, Name: key.Topic}
		if r.Get(ctx, name, topic) == nil && entry.BelongsTo(sets.Tag(topic.UID)) {
			return true
		}
	}
	return false
}

// memory returns the stored information about a LogCluster. It needs no lock, because only one
// worker reconciles a LogCluster at a time.
func (r *Reconciler) memory(cluster types.NamespacedName) *memory.Memory {
	m, ok := r.remembered.Get(cluster)
	if !ok {
		m = &memory.Memory{}
		r.remembered.Set(cluster, m)
	}
	return m
}

// recordSuccess sets the time of the last success, unless the objects could not be applied.
func (r *Reconciler) recordSuccess(cluster types.NamespacedName, result outcome.Outcome) {
	if result.Failure == "" {
		r.LastSuccess.Record(controllerName, cluster)
	}
}

// Reconcile applies all objects, and then executes the next step of a rolling update. It passes the
// result to StatusReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.LastSuccess.Begin(controllerName, req.NamespacedName)
	m := r.memory(req.NamespacedName)
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		*m = memory.Memory{Replacing: m.Replacing}
		r.Outcomes.Forget(req.NamespacedName)
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		r.LastSuccess.Forget(controllerName, req.NamespacedName)
		if err := r.Replace.ReleaseAll(ctx, req.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
		again, err := r.Apply.RemoveOrphans(ctx, req.NamespacedName, m)
		if !m.Replacing {
			r.remembered.Delete(req.NamespacedName)
		}
		return ctrl.Result{RequeueAfter: again}, err
	}
	// The garbage collector is deleting the objects. Applying them would create them again.
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.Replace.ReleaseAll(ctx, req.NamespacedName)
	}
	volumes, objects, err := r.Apply.GrowClaims(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	s, err := r.Facts.Gather(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	restartedFor, err := r.Apply.RestartedFor(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	replacing, err := r.Replace.Continue(ctx, s, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	if m.Restarted != "" {
		s = s.WithoutPod(m.Restarted)
	}
	var resized time.Duration
	volumes.Restarts, resized = r.Apply.ResizeRestarts(s, m, objects, time.Now())
	result, again, err := r.advance(ctx, s, m, facts.Applied{Volumes: volumes}, restartedFor)
	if r.Outcomes.Put(req.NamespacedName, result, time.Now()) {
		if err := watch.Send(ctx, r.Changed, cluster); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	r.recordSuccess(req.NamespacedName, result)
	if len(volumes.Refusals) > 0 {
		again = outcome.Shorter(again, retryInterval) // no event reports a changed StorageClass
	}
	// When no address is stale any longer, the PodDisruptionBudget permits evictions again.
	again = outcome.Shorter(again, s.StaleFor)
	if again = outcome.Shorter(outcome.Shorter(again, resized), replacing); again == 0 {
		again = resyncInterval
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// advance applies a LogCluster and, unless it is paused, continues its rolling update. again is the
// time after which the next step is due; 0 if there is none. It returns no error for an invalid
// LogCluster: a retry would not help, and a change of the LogCluster triggers the next
// reconciliation.
func (r *Reconciler) advance(ctx context.Context, s *facts.Facts, m *memory.Memory,
	applied facts.Applied, restartedFor string) (result outcome.Outcome, again time.Duration,
	err error) {
	result = outcome.Outcome{Generation: s.Cluster.Generation, Paused: s.Cluster.Paused(),
		Storage: outcome.DescribeStorage(s.Cluster, applied.Volumes,
			s.VolumesToReplace(applied).Replace)}
	budgetErr := r.Apply.Budget(ctx, s)
	if invalid := cmp.Or(s.Cluster.Spec.ValidatePeers(),
		s.Cluster.Spec.Pod.Validate()); invalid != nil {
		result.Failure = fmt.Sprintf("accept the spec: %v", invalid)
		return result, 0, budgetErr
	}
	if result.Paused {
		result.Decided, result.Step.Decision = true, outcome.PausedStep(s, applied)
		if foreign := owned.AsForeign(budgetErr); foreign != nil {
			result.Failure, result.Foreign = foreign.Message(), true
			again, budgetErr = retryInterval, nil
		}
		return result, again, budgetErr
	}
	brokers, replaces, err := r.Apply.All(ctx, s, m, restartedFor)
	if err != nil {
		result.Fail(err)
		if result.Foreign {
			return result, retryInterval, nil // no event reports the deletion of a foreign object
		}
		return result, 0, err
	}
	applied.Brokers = brokers
	if replaces != "" {
		// No broker is restarted while there is no StatefulSet, because nothing would create the pod
		// again.
		result.Applying = replaces
		return result, apply.ReplaceInterval, nil
	}
	// Errors of routes must not delay a rolling update: the Gateway API may be missing or too old.
	if err := r.Apply.Routes(ctx, s); err != nil {
		result.Fail(err)
		r.Apply.Failed(s, err)
	}
	result.Step, again, err = r.Roll.Next(ctx, s, m, applied)
	result.Decided = err == nil || result.Step.Refusal != ""
	if result.Failure != "" && again == 0 {
		again = retryInterval
	}
	return result, again, err
}

// retryInterval is the time between two attempts to apply TLSRoutes, or to apply objects whose
// names are taken by foreign objects.
const retryInterval = 30 * time.Second
