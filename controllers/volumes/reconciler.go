package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/operator/volumes"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;update

// defaultInterval is the time between two decisions if no event occurs. It is needed because the
// controller does not watch nodes and PersistentVolumes, so their deletion does not trigger a
// reconciliation.
const defaultInterval = 15 * time.Second

// Reconciler finds lost volumes and replaces them with consent.
type Reconciler struct {
	client.Client
	Live    client.Reader // reader of the API server, without a cache
	Sets    *sets.Reader
	Brokers *brokerstate.Tracker
	Events  conditions.Recorder
	Status  *conditions.Shared
	// Interval is the time between two decisions if no event occurs; default 15 s.
	Interval time.Duration

	// reported contains the lost volumes of the last event. After a restart of the operator, the event
	// is repeated.
	reported keyed.Map[string]
	places   places
}

// Setup adds the controller to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.Interval = cmp.Or(r.Interval, defaultInterval)
	changed := builder.WithPredicates(predicate.Or[client.Object](
		watch.SpecChanged, predicate.AnnotationChangedPredicate{}))
	return watch.NewController(mgr, "volumes", 1).
		For(&v1alpha1.LogCluster{}, changed).
		Watches(&corev1.PersistentVolumeClaim{}, watch.Coalesce(watch.ClusterDelay, ofClaim)).
		Watches(&corev1.Pod{}, watch.Coalesce(watch.ClusterDelay, watch.ClusterOf)).
		Watches(&coordinationv1.Lease{}, watch.Coalesce(watch.ClusterDelay, watch.ClusterOf),
			builder.WithPredicates(volumeChanged)).
		Complete(r)
}

// ofClaim maps a broker's claim to the broker's LogCluster.
func ofClaim(_ context.Context, claim client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: claim.GetNamespace(), Name: render.ClaimCluster(claim)}}}
}

// volumeChanged drops events for renewals of Leases, because decisions depend only on the broker's
// directories in the Lease.
var volumeChanged = predicate.Or(
	watch.RegistrationChanged(func(r v1alpha1.Registration) [2]string {
		return [2]string{r.Directory, r.FoundDirectory}
	}),
	watch.AnnotationsChanged(func(name string) bool {
		return name == v1alpha1.AnnotationVolumeConsent
	}))

// Reconcile makes one decision and executes it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.reported.Delete(req.NamespacedName)
		r.places.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	in, decision, err := r.decide(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if in.running == 0 {
		// While the StatefulSet is being replaced, the number of brokers is unknown, and no consent would
		// match a lost volume. Therefore the status and the consents stay unchanged.
		return ctrl.Result{RequeueAfter: r.Interval}, nil
	}
	if err := r.report(ctx, in, decision); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.act(ctx, in, decision); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.label(ctx, in); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Interval}, nil
}

// act executes a decision.
func (r *Reconciler) act(ctx context.Context, in *input, decision volumes.Decision) error {
	done := slices.Clone(decision.Unused)
	for i := range decision.Lost {
		lost := &decision.Lost[i]
		if lost.Write != nil {
			if err := r.consent(ctx, in, lost); err != nil {
				return err
			}
		}
		if lost.Delete {
			if err := r.release(ctx, in, lost); err != nil {
				return err
			}
		}
		if lost.Used != "" {
			done = append(done, lost.Used)
		}
	}
	for _, uid := range decision.Unused {
		r.Events.Warning(in.cluster, v1alpha1.EventConsentUnused, "ReplaceVolume",
			"The annotation %s named %.64q, which is not the UID of a claim whose volume is lost. It "+
				"was removed.", v1alpha1.AnnotationReplaceVolume, uid)
	}
	return r.withdraw(ctx, in.cluster, done)
}

// consent writes a consent into a broker's Lease.
func (r *Reconciler) consent(ctx context.Context, in *input, lost *volumes.Lost) error {
	lease := in.leases[lost.Broker].DeepCopy()
	lease.Annotations[v1alpha1.AnnotationVolumeConsent] = lost.Write.String()
	if err := r.Update(ctx, lease); err != nil {
		return fmt.Errorf("write the consent into lease %s: %w", lease.Name, err)
	}
	if lost.Used != "" {
		r.Events.Normal(in.cluster, v1alpha1.EventReplacingVolume, "ReplaceVolume",
			"Broker %d may continue with an empty volume in place of the lost one of claim %s. It "+
				"copies its replicas from other brokers.", lost.Broker, lost.Claim)
	}
	return nil
}

// release deletes a claim whose volume no longer exists, and the pod that waits for this volume.
// The StatefulSet controller creates both again.
func (r *Reconciler) release(ctx context.Context, in *input, lost *volumes.Lost) error {
	claim := in.claims[lost.Broker]
	if claim.DeletionTimestamp == nil {
		if err := r.Delete(ctx, claim.DeepCopy(),
			client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete claim %s: %w", claim.Name, err)
		}
	}
	pod := in.pods[lost.Broker]
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	if err := r.Delete(ctx, pod.DeepCopy(),
		client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

// withdraw removes consents from a LogCluster's annotation. If a user adds a consent at the same
// time, the patch fails with a conflict and is repeated, so the new consent is kept.
func (r *Reconciler) withdraw(ctx context.Context, cluster *v1alpha1.LogCluster,
	done []string) error {
	if len(done) == 0 {
		return nil
	}
	left := slices.DeleteFunc(cluster.ReplaceVolumes(),
		func(uid string) bool { return slices.Contains(done, uid) })
	next := cluster.DeepCopy()
	next.Annotations[v1alpha1.AnnotationReplaceVolume] = strings.Join(left, ",")
	if len(left) == 0 {
		delete(next.Annotations, v1alpha1.AnnotationReplaceVolume)
	}
	if err := r.Patch(ctx, next, client.MergeFromWithOptions(cluster,
		client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation %s: %w", v1alpha1.AnnotationReplaceVolume, err)
	}
	return nil
}
