package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters/status,verbs=get;patch

// Reconciler writes LogCluster.status.
type Reconciler struct {
	client.Client
	Live    client.Reader // reader of the API server, without a cache
	Events  conditions.Recorder
	Brokers *brokerstate.Tracker
	Sets    *sets.Reader
	// Outcomes contains the results of Reconciler in package logcluster.
	Outcomes *outcome.Outcomes
	// BrokerChanges delivers a LogCluster when the state of one of its brokers, or the outcome of
	// its reconciliation, has changed.
	BrokerChanges <-chan event.GenericEvent
	// Shared contains the conditions that other controllers decide.
	Shared *conditions.Shared

	// written contains the resource version of each LogCluster after the last write of its status.
	// The controller has one worker.
	written map[types.NamespacedName]string
}

// Setup adds the controller to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	ofCluster := watch.Coalesce(watch.ClusterDelay, watch.ClusterOf)
	return watch.NewController(mgr, "logcluster-status", 1).
		For(&v1alpha1.LogCluster{}).
		Owns(&appsv1.StatefulSet{}).
		Watches(&v1alpha1.Topic{}, ofCluster).
		Watches(&v1alpha1.PartitionSet{}, ofCluster).
		Watches(&corev1.Pod{}, ofCluster).
		Watches(&coordinationv1.Lease{}, ofCluster, builder.WithPredicates(leaseChanged)).
		WatchesRawSource(source.Channel(r.BrokerChanges, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.Shared.Changes(), &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile writes the status if it has changed. This controller is the only writer of the status,
// so it patches the status without compare-and-swap. If a decision was based on an outdated cache,
// the event that updates the cache triggers a reconciliation that corrects the status. Only an
// outdated LogCluster itself is not used, because the same events would be created twice.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	before := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, before); err != nil {
		if apierrors.IsNotFound(err) {
			delete(r.written, req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if isOlder(before.ResourceVersion, r.written[req.NamespacedName]) {
		// The cache does not contain the last write yet. The events of that write would be created
		// once more.
		return ctrl.Result{RequeueAfter: cacheDelay}, nil
	}
	found, err := facts.Gatherer{Reader: r, Sets: r.Sets, Brokers: r.Brokers}.Gather(ctx, before)
	if err != nil {
		return ctrl.Result{}, err
	}
	last, known := r.Outcomes.Get(req.NamespacedName)
	after := before.DeepCopy()
	after.Status = describeCluster(found, r.Shared.Get(req.NamespacedName),
		r.Shared.Removal(req.NamespacedName))
	after.Status.Brokers = describeBrokers(found, last.Storage)
	describeSpread(found, &after.Status)
	if rebalance := r.Shared.Rebalance(req.NamespacedName); rebalance != nil {
		after.Status.Rebalance = rebalance.DeepCopy()
	}
	skewed := found.Skew(time.Now())
	describeSkew(&after.Status, skewed, before.Generation)
	if lost, known := r.Shared.LostVolumes(req.NamespacedName); known {
		after.Status.LostVolumes = slices.Clone(lost)
	}
	if next, known := r.Shared.Expiry(req.NamespacedName); known {
		after.Status.NextCertificateExpiry = next.DeepCopy()
	}
	storage := storageCondition(after.Status.Brokers)
	storage.ObservedGeneration = before.Generation
	meta.SetStatusCondition(&after.Status.Conditions, storage)
	if known {
		last.Describe(found, &after.Status, time.Now())
	}
	conditions.SetProgress(&after.Status.Conditions, before.Generation)
	var bootstrapErr error
	after.Status.Bootstrapped, bootstrapErr = r.bootstrapped(ctx, before)
	result := ctrl.Result{}
	if !skewed.RaiseAt.IsZero() {
		result.RequeueAfter = max(time.Second, time.Until(skewed.RaiseAt))
	}
	if !after.Status.Bootstrapped {
		result.RequeueAfter = bootstrapInterval
	}
	if bootstrapErr != nil {
		result = ctrl.Result{} // the error causes a retry
	}
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return result, bootstrapErr
	}
	if err := r.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.written == nil {
		r.written = map[types.NamespacedName]string{}
	}
	r.written[req.NamespacedName] = after.ResourceVersion
	r.recordChanges(before, after)
	return result, bootstrapErr
}

// cacheDelay is the time after which a LogCluster is reconciled again if the cache lacks the last
// write. The update of the cache usually triggers a reconciliation earlier.
const cacheDelay = time.Second

// isOlder reports whether a resource version is older than another one. The other one is empty
// before the first write.
func isOlder(version, than string) bool {
	if than == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// recordChanges creates the events for a changed status.
func (r *Reconciler) recordChanges(before, after *v1alpha1.LogCluster) {
	r.Events.ReadyChanged(after, before.Status.Conditions, after.Status.Conditions)
	if rose := pressureRose(before.Status.Conditions, after.Status.Conditions); rose != nil {
		r.Events.Warning(after, v1alpha1.ConditionStoragePressure, "Reconcile", "%s", rose.Message)
	}
	if resize := resizeChanged(before.Status.Conditions, after.Status.Conditions); resize != nil {
		report := r.Events.Normal
		if severeResize(resize.Reason) {
			report = r.Events.Warning
		}
		report(after, resize.Reason, "Reconcile", "%s", resize.Message)
	}
	for _, found := range newFindings(before.Status.Brokers, after.Status.Brokers) {
		if found.RepairedTime == nil {
			r.Events.Warning(after, v1alpha1.EventDamageFound, "Scrub", "%s", found.Text)
		} else {
			r.Events.Normal(after, v1alpha1.EventDamageRepaired, "Scrub", "%s", found.Text)
		}
	}
}

// describeCluster returns the new status, including the conditions of other controllers. A
// condition whose status has not changed keeps its transition time.
func describeCluster(s *facts.Facts, shared []metav1.Condition,
	removal conditions.Removal) v1alpha1.LogClusterStatus {
	status := *s.Cluster.Status.DeepCopy()
	status.Bootstrap, status.Listeners = render.Bootstrap(s.Cluster), listenerStatuses(s)
	status.ReadyBrokers, _ = s.ReadyBrokers()
	status.Topics = int32(len(s.Topics))
	replicas := s.Replication()
	status.Partitions, status.UnderReplicatedPartitions = replicas.Partitions, replicas.UnderReplicated
	status.LeaderlessPartitions = replicas.Leaderless
	status.LentReplicas = s.CountLent()
	if s.Brokers.Status.UpdateRevision != "" &&
		s.Brokers.Status.ObservedGeneration >= s.Brokers.Generation {
		status.UpdateRevision = s.Brokers.Status.UpdateRevision
	}
	describeRetained(s, &status)
	draining := s.Drain()
	status.DrainingReplicas = draining.Replicas
	for _, condition := range []metav1.Condition{
		readyCondition(s, status, replicas.ReadyMessage()), replicas.Condition(),
		scaledCondition(s, draining, removal), listenersCondition(s)} {
		condition.ObservedGeneration = s.Cluster.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	addShared(&status, shared)
	return status
}

// addShared adds other controllers' conditions to a status. They keep the generation for which they
// were decided, so that they are not mistaken for results of a later spec.
func addShared(status *v1alpha1.LogClusterStatus, shared []metav1.Condition) {
	for _, condition := range shared {
		if condition.Status == "" {
			meta.RemoveStatusCondition(&status.Conditions, condition.Type)
		} else {
			meta.SetStatusCondition(&status.Conditions, condition)
		}
	}
}

// readyCondition returns condition Ready, with message up if the condition is True. While the
// StatefulSet controller has not observed the latest spec, the pods may still belong to the
// previous spec. In this state, a LogCluster must not become Ready. A Ready LogCluster, however,
// stays Ready, because every step of a rolling update passes through this state. Under-replicated
// partitions do not change the condition (ADR 0305).
func readyCondition(s *facts.Facts, status v1alpha1.LogClusterStatus, up string) metav1.Condition {
	observed := s.Brokers.Status.ObservedGeneration >= s.Brokers.Generation
	enough := status.ReadyBrokers >= s.Cluster.Spec.Brokers
	wasReady := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case !s.Cluster.DeletionTimestamp.IsZero():
		return conditions.NotReady(v1alpha1.ReasonDeleting, fmt.Sprintf(
			"The LogCluster is being deleted and waits for its finalizers %v.",
			s.Cluster.Finalizers))
	case enough && (observed || wasReady):
		return conditions.Ready(up)
	}
	message := fmt.Sprintf("%d of %d brokers are ready.", status.ReadyBrokers,
		s.Cluster.Spec.Brokers)
	if _, notLeased := s.ReadyBrokers(); len(notLeased) > 0 {
		message += fmt.Sprintf(" The pods of brokers %v are ready, but the brokers do not renew "+
			"their Leases: check the logs of these pods.", notLeased)
	}
	return conditions.NotReady(v1alpha1.ReasonBrokersNotReady, fmt.Sprintf(
		"%s For details run: kubectl get pods -n %s -l %s=%s", message, s.Cluster.Namespace,
		v1alpha1.LabelCluster, s.Cluster.Name))
}
