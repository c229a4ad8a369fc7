package apply

import (
	"heartwood.dev/heartwood/controllers/logcluster/memory"

	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/render"
)

// ReplaceInterval is the time between two attempts to continue the replacement of a StatefulSet.
const ReplaceInterval = time.Second

// makeWay removes the StatefulSet if its volume claim templates, which are immutable, differ from
// the templates of rendered. Its pods continue to run. The next StatefulSet adopts them, because it
// has the same name, selector and pod template. makeWay returns "" if rendered can be applied now,
// otherwise a description of what it waits for.
//
// After each of the following steps, the next reconciliation can continue:
//
//  1. With reclaimPolicy Delete, Kubernetes deletes the claims with the StatefulSet that owns them.
//     So its policy is set to Retain first, and step 2 waits until the StatefulSet owns no claim.
//     The garbage collector, which removes the owner from the dependents, may not know yet that a
//     claim has just got this owner, and would then delete the claim.
//  2. If the API server would accept rendered, the StatefulSet is deleted; its dependents become
//     orphans. Without this check, an invalid spec would leave the pods without a StatefulSet.
//  3. When it is gone, rendered is created. Until then no pod is restarted.
func (a *Applier) makeWay(ctx context.Context, s *facts.Facts, m *memory.Memory,
	rendered *appsv1.StatefulSet) (waits string, err error) {
	live := s.Brokers
	switch {
	case live.UID == "", live.DeletionTimestamp == nil && render.SameClaims(live, rendered),
		!metav1.IsControlledBy(live, s.Cluster): // applying it reports the foreign object
		return "", nil
	case live.DeletionTimestamp != nil:
		return "Kubernetes is removing the earlier StatefulSet without its pods.", nil
	}
	policy := live.Spec.PersistentVolumeClaimRetentionPolicy
	if policy != nil &&
		policy.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		kept := live.DeepCopy()
		kept.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted =
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		err := a.Patch(ctx, kept,
			client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}))
		if IgnoreStale(err) != nil {
			return "", fmt.Errorf("keep the volume claims of StatefulSet %s: %w", live.Name, err)
		}
		return "The volume claims are detached from the earlier StatefulSet.", nil
	}
	owned := &corev1.PersistentVolumeClaimList{}
	if err := a.Live.List(ctx, owned, client.InNamespace(live.Namespace),
		client.MatchingLabels(render.Selector(s.Cluster))); err != nil {
		return "", fmt.Errorf("list volume claims: %w", err)
	}
	for i := range owned.Items {
		if ownedBy(&owned.Items[i], live.UID) {
			return fmt.Sprintf("The StatefulSet controller is to detach claim %s from the earlier "+
				"StatefulSet.", owned.Items[i].Name), nil
		}
	}
	check := rendered.DeepCopy()
	check.Name += "-check" // because the StatefulSet's own name is in use
	if err := a.Create(ctx, check, client.DryRunAll); err != nil {
		return "", fmt.Errorf("apply StatefulSet %s: %w", live.Name, err)
	}
	err = a.Delete(ctx, live.DeepCopy(), client.Preconditions{UID: &live.UID},
		client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if IgnoreStale(err) != nil {
		return "", fmt.Errorf("delete StatefulSet %s without its pods: %w", live.Name, err)
	}
	if err == nil {
		m.Replacing = true
	}
	return "Kubernetes is removing the earlier StatefulSet without its pods.", nil
}

// IgnoreStale returns nil if an error only means that the cache was outdated; otherwise it returns
// the error. After nil, the event that updates the cache triggers the next reconciliation.
func IgnoreStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ownedBy reports whether an object has an owner.
func ownedBy(object metav1.Object, owner types.UID) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner {
			return true
		}
	}
	return false
}

// RemoveOrphans deletes the pods of a LogCluster that was deleted while its StatefulSet was being
// replaced, because nothing else would delete them. It deletes nothing unless this process was
// replacing the StatefulSet, because a user who orphans pods on purpose wants them to run. again is
// the time after which RemoveOrphans must be called again; 0 if it has finished.
func (a *Applier) RemoveOrphans(ctx context.Context, cluster types.NamespacedName,
	m *memory.Memory) (again time.Duration, err error) {
	if !m.Replacing {
		return 0, nil
	}
	pods := &corev1.PodList{}
	if err := a.Live.List(ctx, pods, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return 0, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if metav1.GetControllerOf(pod) != nil {
			again = ReplaceInterval // not yet orphaned by the garbage collector
			continue
		}
		if err := a.Delete(ctx, pod,
			client.Preconditions{UID: &pod.UID}); IgnoreStale(err) != nil {
			return 0, fmt.Errorf("delete pod %s: %w", pod.Name, err)
		}
	}
	m.Replacing = again != 0
	return again, nil
}

// RestartedFor returns the restart request in the StatefulSet's pod template. Without it, a
// replaced StatefulSet would restart all pods. While the StatefulSet is being replaced,
// RestartedFor reads the request from the youngest pod. It reads the pods from the API server,
// because the cache contains only a part of their fields.
func (a *Applier) RestartedFor(ctx context.Context, s *facts.Facts) (string, error) {
	template := &s.Brokers.Spec.Template.ObjectMeta
	if s.Brokers.UID == "" {
		pods := &corev1.PodList{}
		if err := a.Live.List(ctx, pods, client.InNamespace(s.Cluster.Namespace),
			client.MatchingLabels{v1alpha1.LabelCluster: s.Cluster.Name}); err != nil {
			return "", fmt.Errorf("list pods: %w", err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i].ObjectMeta
			if template.CreationTimestamp.Before(&pod.CreationTimestamp) {
				template = pod
			}
		}
	}
	return template.Annotations[v1alpha1.AnnotationRestartedFor], nil
}
