package assignment

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// createMissing creates the missing PartitionSets of a LogCluster, and reports whether all exist. A
// PartitionSet that was deleted is created with its last content. If this content is not known yet,
// because the event of the deletion has not arrived, that event triggers another pass.
func (r *Reconciler) createMissing(ctx context.Context, cluster types.NamespacedName,
	present *sets.Cluster) (complete bool, err error) {
	var group errgroup.Group
	complete = true
	for number := range present.Count {
		if present.Objects[number] != nil {
			continue
		}
		complete = false
		set, err := r.newSet(ctx, cluster, present.Count, number)
		if err != nil {
			return false, err
		}
		if set == nil {
			continue
		}
		group.Go(func() error {
			if err := r.Create(ctx, set); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create PartitionSet %s: %w", set.Name, err)
			}
			return nil
		})
	}
	return complete, group.Wait()
}

// newSet returns a PartitionSet to create, or nil if the last content of the deleted one is not
// known yet.
func (r *Reconciler) newSet(ctx context.Context, cluster types.NamespacedName, count,
	number int32) (*v1alpha1.PartitionSet, error) {
	set := &v1alpha1.PartitionSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:      v1alpha1.PartitionSetName(cluster.Name, number),
			Namespace: cluster.Namespace,
			Labels:    map[string]string{v1alpha1.LabelCluster: cluster.Name},
		},
		Spec: v1alpha1.PartitionSetSpec{Cluster: cluster.Name, Index: number, Count: count},
	}
	last, known := r.deleted.Last(client.ObjectKeyFromObject(set))
	if !known {
		return nil, nil
	}
	if last == nil || last.Spec.Cluster != cluster.Name || last.Spec.Count != count {
		return set, nil
	}
	last, err := laststatus.Restored(last)
	if err != nil {
		return nil, err
	}
	set.Spec.Assignments = last.Spec.Assignments
	if err := partitionset.Remember(set, last.Status); err != nil {
		return nil, err
	}
	if len(set.Spec.Assignments) > 0 {
		ctrl.LoggerFrom(ctx).Info("a PartitionSet was deleted, creating it again", "set", set.Name)
	}
	return set, nil
}

// deleteEmpty deletes the empty PartitionSets of a LogCluster that does not exist. It keeps
// PartitionSets with retained partitions for a later LogCluster of the same name.
func (r *Reconciler) deleteEmpty(ctx context.Context, present *sets.Cluster) error {
	for number, set := range present.Objects {
		if !present.Sets[number].Empty() || !set.DeletionTimestamp.IsZero() {
			continue
		}
		version := client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion}
		err := r.Delete(ctx, &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name}}, version)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete PartitionSet %s: %w", set.Name, err)
		}
	}
	return nil
}
