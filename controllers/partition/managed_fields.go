package partition

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// clearManagedFields removes the managed fields of a Partition before its first election, and
// updates partition.ResourceVersion. From then on the API server tracks no managed fields of this
// Partition. Managed fields make up more than half of a Partition's size and a third of the cost of
// each write; when a broker fails, its partitions wait for hundreds of writes. Users do not apply
// Partitions, so nothing needs the managed fields (ADR 0214). See "Clearing managedFields" in
// Kubernetes' documentation of Server-Side Apply.
func clearManagedFields(ctx context.Context, c client.Client, partition *v1alpha1.Partition) error {
	if len(partition.ManagedFields) == 0 || partition.Status.LeaderEpoch != 0 {
		return nil
	}
	cleared := &v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Namespace: partition.Namespace,
		Name: partition.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"managedFields":[{}]}}`,
		partition.ResourceVersion)
	if err := c.Patch(ctx, cleared, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("clear the partition's managed fields: %w", err)
	}
	partition.ResourceVersion, partition.ManagedFields = cleared.ResourceVersion, nil
	return nil
}

// TrimManagedFields is a cache transform. It replaces a Partition's managed fields by one empty
// entry, so that clearManagedFields knows that the stored object has managed fields. If a user has
// applied the Partition, it removes all entries instead, so that clearManagedFields leaves the
// stored object unchanged.
func TrimManagedFields(object any) (any, error) {
	partition, ok := object.(*v1alpha1.Partition)
	if !ok {
		return object, nil
	}
	applied := slices.ContainsFunc(partition.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Operation == metav1.ManagedFieldsOperationApply
	})
	if applied || len(partition.ManagedFields) == 0 {
		partition.ManagedFields = nil
	} else {
		partition.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	}
	return partition, nil
}
