package apply

import (
	"cmp"

	"heartwood.dev/heartwood/controllers/logcluster/memory"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"

	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/claims"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get

// GrowClaims raises the requested size of volume claims that request less than spec.storage.size.
// If an earlier spec requested more, it withdraws expansions that have not happened yet. It returns
// the state of all claims. This state includes refused requests; an error means only that the cache
// could not be read. GrowClaims needs only the LogCluster's spec and runs before everything else,
// because a full volume must be able to grow while nothing else works.
func (a *Applier) GrowClaims(ctx context.Context,
	cluster *v1alpha1.LogCluster) (claims.State, []corev1.PersistentVolumeClaim, error) {
	state := claims.State{Size: render.VolumeSize(cluster), Refusals: map[int32]claims.Refusal{}}
	objects, err := a.claimsOf(ctx, cluster)
	if err != nil {
		return state, nil, err
	}
	for i := range objects {
		claim := observeClaim(&objects[i])
		class := cluster.Spec.Storage.ClassName
		claim.Replaced = class != nil && claim.Class != *class
		if next, changed := claim.Next(state.Size); changed && !cluster.Paused() {
			switch refusal := a.request(ctx, &objects[i], claim, next); {
			case refusal == nil:
				claim.Requested, claim.Asked = next, &next
			case !refusal.ByClass || !claim.Replaced: // the replacement volume will have the size
				state.Refusals[claim.Broker] = *refusal
			}
		}
		state.Claims = append(state.Claims, claim)
	}
	return state, objects, nil
}

// claimsOf returns the volume claims of brokers that run or will run, by broker id. It omits the
// claims of removed brokers, which stay unchanged until these brokers return.
func (a *Applier) claimsOf(ctx context.Context,
	cluster *v1alpha1.LogCluster) ([]corev1.PersistentVolumeClaim, error) {
	running, brokers := cluster.Spec.Brokers, &appsv1.StatefulSet{}
	name := types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}
	if err := a.Get(ctx, name, brokers); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers' StatefulSet: %w", err)
	} else if err == nil && brokers.Spec.Replicas != nil {
		running = max(running, *brokers.Spec.Replicas)
	}
	list := &corev1.PersistentVolumeClaimList{}
	if err := a.List(ctx, list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels(render.Selector(cluster))); err != nil {
		return nil, fmt.Errorf("list volume claims: %w", err)
	}
	objects := slices.DeleteFunc(list.Items, func(claim corev1.PersistentVolumeClaim) bool {
		owner, id, ok := v1alpha1.ParseVolumeClaimName(claim.Name)
		return !ok || owner != cluster.Name || id >= running || claim.DeletionTimestamp != nil
	})
	slices.SortFunc(objects, func(a, b corev1.PersistentVolumeClaim) int {
		_, idA, _ := v1alpha1.ParseVolumeClaimName(a.Name)
		_, idB, _ := v1alpha1.ParseVolumeClaimName(b.Name)
		return int(idA) - int(idB)
	})
	return objects, nil
}

// observeClaim returns the properties of a claim that package claims needs.
func observeClaim(object *corev1.PersistentVolumeClaim) claims.Claim {
	_, id, _ := v1alpha1.ParseVolumeClaimName(object.Name)
	claim := claims.Claim{Broker: id, Name: object.Name,
		Bound:     object.Status.Phase == corev1.ClaimBound,
		Requested: *object.Spec.Resources.Requests.Storage(),
		Capacity:  *object.Status.Capacity.Storage()}
	if object.Spec.StorageClassName != nil {
		claim.Class = *object.Spec.StorageClassName
	}
	if text := object.Annotations[v1alpha1.AnnotationRequestedSize]; text != "" {
		if asked, err := resource.ParseQuantity(text); err == nil {
			claim.Asked = &asked
		}
	}
	switch status := object.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible,
		corev1.PersistentVolumeClaimNodeResizeInfeasible:
		claim.ResizeError = fmt.Sprintf("the driver has given up (%s)", status)
	}
	for _, condition := range object.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case corev1.PersistentVolumeClaimFileSystemResizePending:
			claim.FileSystemPending = true
		case corev1.PersistentVolumeClaimControllerResizeError,
			corev1.PersistentVolumeClaimNodeResizeError:
			claim.ResizeError = condition.Message
		}
	}
	return claim
}

// request changes a claim's requested size, and records the size in an annotation. It returns nil
// after success, otherwise the refusal. The resource version is a precondition, because the cache
// can be outdated and another client may have changed the size.
func (a *Applier) request(ctx context.Context, object *corev1.PersistentVolumeClaim,
	claim claims.Claim, size resource.Quantity) *claims.Refusal {
	expansion := a.expansion(ctx, claim.Class)
	if expansion == claims.Forbidden && claim.Requested.Cmp(size) < 0 {
		return &claims.Refusal{ByClass: true}
	}
	after := object.DeepCopy()
	after.Spec.Resources.Requests[corev1.ResourceStorage] = size
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.AnnotationRequestedSize, size.String())
	err := a.Patch(ctx, after,
		client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	switch {
	case err == nil:
		*object = *after
		return nil
	case apierrors.IsConflict(err):
		return nil // the event that updates the cache triggers the next reconciliation
	}
	// This is the wording of the admission plugin PersistentVolumeClaimResize.
	byClass := expansion == claims.Unknown && apierrors.IsForbidden(err) &&
		strings.Contains(err.Error(), "must support resize")
	return &claims.Refusal{ByClass: byClass, Message: err.Error()}
}

// expansion reports whether a StorageClass allows its volumes to grow. It reads the class from the
// API server itself, because the class is needed only when a size changes. An operator that is
// restricted to some namespaces may not be allowed to read StorageClasses.
func (a *Applier) expansion(ctx context.Context, class string) claims.Expansion {
	if class == "" {
		return claims.Forbidden
	}
	object := &storagev1.StorageClass{}
	switch err := a.Live.Get(ctx, types.NamespacedName{Name: class}, object); {
	case apierrors.IsNotFound(err):
		return claims.Forbidden
	case err != nil:
		return claims.Unknown
	case object.AllowVolumeExpansion != nil && *object.AllowVolumeExpansion:
		return claims.Allowed
	}
	return claims.Forbidden
}

// DefaultResizeWait is the time after which a broker is restarted if its volume has grown but its
// file system has not. With most drivers the file system grows while the pod runs: the kubelet
// notices the new volume size when it synchronizes the pod, every 60 to 90 s.
const DefaultResizeWait = 3 * time.Minute

// ResizeRestarts returns the brokers whose file systems grow only after a restart. It requests only
// one restart for each size of a claim: if the file system has not grown after the next pod has
// mounted it, another restart does not help.
func (a *Applier) ResizeRestarts(s *facts.Facts, m *memory.Memory,
	objects []corev1.PersistentVolumeClaim,
	now time.Time) (restarts map[int32]bool, again time.Duration) {
	before := m.Resizes
	current := map[int32]memory.PendingResize{}
	for i := range objects {
		claim := observeClaim(&objects[i])
		if !claim.FileSystemPending {
			continue
		}
		var pod types.UID
		if p := s.Pod(claim.Broker); p != nil {
			pod = p.UID
		}
		pending, requested := before[claim.Broker], claim.Requested.String()
		if pending.Claim != objects[i].UID || pending.Requested != requested {
			pending = memory.PendingResize{Claim: objects[i].UID,
				Requested: requested, Pod: pod, Since: now}
		}
		current[claim.Broker] = pending
		switch left := cmp.Or(a.ResizeWait, DefaultResizeWait) - now.Sub(pending.Since); {
		case pod == "" || pod != pending.Pod:
		case left > 0:
			again = outcome.Shorter(again, left)
		default:
			if restarts == nil {
				restarts = map[int32]bool{}
			}
			restarts[claim.Broker] = true
		}
	}
	m.Resizes = current
	return restarts, again
}
