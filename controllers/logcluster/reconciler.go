package logcluster

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
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
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/controllers/peertls"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
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
// changed, so that an old time of the last success shows that reconciliations fail.
const resyncInterval = 10 * time.Minute

// controllerName is the name of Reconciler's controller in metrics and logs.
const controllerName = "logcluster"

// Reconciler applies the objects that run a LogCluster. The LogCluster owns these objects, so
// Kubernetes deletes them with it. The StatefulSet's settings determine whether the volumes are
// deleted too (see render).
type Reconciler struct {
	client.Client
	Live        client.Reader // reads from the API server itself
	Sets        *sets.Reader
	Writer      *commit.Writer
	Reports     *reports.Collector
	Settings    render.Settings
	Events      conditions.Recorder
	LastSuccess *opmetrics.LastSuccess
	Brokers     *brokerstate.Tracker
	Outcomes    *outcome.Outcomes
	// Changed receives a LogCluster when its outcome has changed.
	Changed chan<- event.GenericEvent
	// Transport is for requests to brokers without TLS; default http.DefaultTransport.
	Transport http.RoundTripper
	// TLS makes the transports of requests to brokers with TLS.
	TLS *peertls.Client
	// SettleTime is the time for which a restarted broker must be ready before the next broker is
	// restarted; default 30 s.
	SettleTime time.Duration
	// ResizeWait is the time that file systems have to grow before their brokers are restarted;
	// default 3 min.
	ResizeWait time.Duration
	// RolloutInterval is the time between two attempts to continue a rolling update; default 5 s.
	RolloutInterval time.Duration

	ready readiness
	// restarted contains the UID of the last pod that was deleted for a restart. The cache may still
	// contain that pod as a ready one in the next reconciliation. After a restart of the operator
	// the UID is lost; the cache is up to date then.
	restarted keyed.Map[types.UID]
	// resizes are claims whose file systems are to grow, by broker id. After a restart of the
	// operator they have ResizeWait once more, and one more restart.
	resizes keyed.Map[map[int32]pendingResize]
	// replacing is true for a LogCluster whose StatefulSet was deleted and not created again yet.
	// After a restart of the operator see removeOrphans.
	replacing keyed.Map[bool]
	// stopped contains, by the UIDs of their pods, since when the brokers have exited that stop for
	// the replacement of their volumes. After a restart of the operator keepAfter begins again.
	stopped keyed.Map[map[types.UID]time.Time]
}

// Setup adds the controller to a manager. It watches the owned objects, so that it can revert
// changes and deletions by others. Services, ServiceAccounts, Roles and RoleBindings are watched
// without the generation predicate: some API servers do not maintain metadata.generation for these
// kinds, and the predicate would then drop every change.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.SettleTime = cmp.Or(r.SettleTime, defaultSettleTime)
	r.ResizeWait = cmp.Or(r.ResizeWait, defaultResizeWait)
	r.RolloutInterval = cmp.Or(r.RolloutInterval, rolloutInterval)
	// A change that affects only the status requires no apply.
	specChanged := builder.WithPredicates(watch.SpecChanged)
	// annotations pause changes and request restarts
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
		// including changes of its status, which continue a rolling update
		Owns(&appsv1.StatefulSet{}).
		// including changes of their status, which report the progress of a resize
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

func (r *Reconciler) gatherer() facts.Gatherer {
	return facts.Gatherer{Reader: r, Sets: r.Sets, Brokers: r.Brokers}
}

// ofChangingCluster maps a PartitionSet to its LogCluster, but only while a change of the set may
// require an apply: while brokers are being drained, or when the PodDisruptionBudget must change.
// A rolling update continues at intervals.
func (r *Reconciler) ofChangingCluster(ctx context.Context,
	set client.Object) []reconcile.Request {
	found := watch.ClusterOf(ctx, set)
	cluster, budget := &v1alpha1.LogCluster{}, &policyv1.PodDisruptionBudget{}
	key := types.NamespacedName{Namespace: set.GetNamespace(),
		Name: render.BrokersName(found[0].Name)}
	if r.Get(ctx, found[0].NamespacedName, cluster) != nil || r.Get(ctx, key, budget) != nil {
		return nil // not created yet; its creation triggers a reconciliation
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
	s, err := r.gatherer().GatherPartitions(ctx, cluster)
	if err != nil {
		return found
	}
	if allowed := budget.Spec.MaxUnavailable; !drains && allowed != nil &&
		allowed.IntVal == render.MaxUnavailable(settingsOf(s, r.Settings)) {
		return nil
	}
	return found
}

// isUnderReplicated reports whether a partition of an existing Topic in a set is under-replicated.
func (r *Reconciler) isUnderReplicated(ctx context.Context, set *v1alpha1.PartitionSet) bool {
	for key, entry := range r.Sets.Decode(ctx, set).All() {
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
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.ready.forget(req.NamespacedName)
		r.restarted.Delete(req.NamespacedName)
		r.Outcomes.Forget(req.NamespacedName)
		r.resizes.Delete(req.NamespacedName)
		r.stopped.Delete(req.NamespacedName)
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		r.LastSuccess.Forget(controllerName, req.NamespacedName)
		if err := r.releaseAll(ctx, req.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
		again, err := r.removeOrphans(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: again}, err
	}
	// The garbage collector is deleting the objects; an apply would create them again.
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.releaseAll(ctx, req.NamespacedName)
	}
	volumes, objects, err := r.growClaims(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	s, err := r.gatherer().Gather(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if s.RestartedFor, err = r.restartedFor(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	replacing, err := r.continueReplacements(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if restarted, ok := r.restarted.Get(req.NamespacedName); ok {
		s.RemovePod(restarted)
	}
	var resized time.Duration
	volumes.Restarts, resized = r.resizeRestarts(s, objects, time.Now())
	s.Volumes = volumes
	result, again, err := r.advance(ctx, s)
	if r.Outcomes.Put(req.NamespacedName, result, time.Now()) {
		if err := watch.Send(ctx, r.Changed, cluster); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if result.Complete() {
		if err := r.rewriteListeners(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.recordSuccess(req.NamespacedName, result)
	if len(volumes.Refusals) > 0 {
		again = shorter(again, retryInterval) // no event announces another StorageClass
	}
	// The PodDisruptionBudget permits evictions again when no address is stale.
	again = shorter(again, s.StaleFor)
	if again = shorter(shorter(again, resized), replacing); again == 0 {
		again = resyncInterval
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// advance applies a LogCluster and continues its rolling update, unless it is paused. again is the
// time after which the next step is due; 0 if there is none. It returns no error for an invalid
// LogCluster: a retry would not help, and a change of the LogCluster triggers the next one.
func (r *Reconciler) advance(ctx context.Context, s *facts.Facts) (result outcome.Outcome, again time.Duration,
	err error) {
	result = outcome.Outcome{Generation: s.Cluster.Generation, Paused: s.Cluster.Paused(),
		Storage: outcome.DescribeStorage(s.Cluster, s.Volumes, s.VolumesToReplace().Replace)}
	budgetErr := r.applyBudget(ctx, s)
	if invalid := cmp.Or(s.Cluster.Spec.Listeners.Validate(),
		s.Cluster.Spec.ValidatePeers(), s.Cluster.Spec.Pod.Validate()); invalid != nil {
		result.Failure = fmt.Sprintf("accept the spec: %v", invalid)
		return result, 0, budgetErr
	}
	if result.Paused {
		result.Decided, result.Step.Decision = true, outcome.PausedStep(s)
		if foreign := owned.AsForeign(budgetErr); foreign != nil {
			result.Failure, result.Foreign = foreign.Message(), true
			again, budgetErr = retryInterval, nil
		}
		return result, again, budgetErr
	}
	if err := r.applyAll(ctx, s); err != nil {
		result.Fail(err)
		if result.Foreign {
			return result, retryInterval, nil // no event announces the end of a foreign object
		}
		return result, 0, err
	}
	if s.Replaces != "" {
		// No broker is restarted meanwhile: its pod would not be created again.
		result.Applying = s.Replaces
		return result, replaceInterval, nil
	}
	// Routes must not delay a rolling update: the Gateway API may be missing or too old.
	if err := r.applyRoutes(ctx, s); err != nil {
		result.Fail(err)
		r.applyFailed(s, err)
	}
	result.Step, again, err = r.roll(ctx, s)
	result.Decided = err == nil || result.Step.Refusal != ""
	if result.Failure != "" && again == 0 {
		again = retryInterval
	}
	return result, again, err
}

// retryInterval is the time between two attempts to apply TLSRoutes, and objects whose names other
// objects have.
const retryInterval = 30 * time.Second

func (r *Reconciler) applier() owned.Applier {
	return owned.Applier{Client: r.Client, Live: r.Live}
}

func (r *Reconciler) applyFailed(s *facts.Facts, err error) {
	r.Events.Warning(s.Cluster, v1alpha1.EventApplyFailed, "Apply",
		"The operator failed to %v; it retries.", err)
}

// applyBudget applies the PodDisruptionBudget, if it exists and permits another number of evictions
// than the replicas do. Neither a pause nor a spec that cannot be applied may delay that: with an
// outdated budget, the drain of a node would evict a broker whose replicas others need.
func (r *Reconciler) applyBudget(ctx context.Context, s *facts.Facts) error {
	budget, settings := &policyv1.PodDisruptionBudget{}, settingsOf(s, r.Settings)
	key := types.NamespacedName{Namespace: s.Cluster.Namespace,
		Name: render.BrokersName(s.Cluster.Name)}
	if err := r.Get(ctx, key, budget); err != nil {
		return client.IgnoreNotFound(err) // applyAll creates it
	}
	if allowed := budget.Spec.MaxUnavailable; allowed != nil &&
		allowed.IntVal == render.MaxUnavailable(settings) {
		return nil
	}
	return r.applier().Apply(ctx, s.Cluster, render.PodDisruptionBudget(s.Cluster, settings))
}

// applyAll applies all objects in the order in which package render returns them. It stops at the
// first error, because later objects may depend on the failed one, as pods depend on their
// ServiceAccount. It creates an event for the error; the queue retries with backoff.
func (r *Reconciler) applyAll(ctx context.Context, s *facts.Facts) error {
	rendered := render.Cluster(s.Cluster, settingsOf(s, r.Settings))
	for _, object := range rendered {
		if brokers, ok := object.(*appsv1.StatefulSet); ok {
			var err error
			if s.Replaces, err = r.makeWay(ctx, s, brokers); err != nil {
				r.applyFailed(s, err)
				return err
			} else if s.Replaces != "" {
				break
			}
		}
		if err := r.applier().Apply(ctx, s.Cluster, object); err != nil {
			r.applyFailed(s, err)
			return err
		}
		if brokers, ok := object.(*appsv1.StatefulSet); ok {
			s.Applied = brokers
			r.replacing.Delete(client.ObjectKeyFromObject(s.Cluster))
		}
	}
	return r.pruneServices(ctx, s, rendered)
}

// settingsOf returns the settings for package render.
func settingsOf(s *facts.Facts, base render.Settings) render.Settings {
	base.Brokers, base.PartitionSets = s.Drain().Brokers, s.Sets.Count
	base.ScramShards = s.ScramShards
	// The template keeps the last requested restart: removing the annotation restarts nothing.
	base.RestartRequest = cmp.Or(s.Cluster.Annotations[v1alpha1.AnnotationRestart], s.RestartedFor)
	base.NoEvictions = s.Replication().UnderReplicated > 0 || s.StaleFor > 0
	return base
}
