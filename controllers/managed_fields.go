package controllers

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// untrack has the API server keep no managed fields of a Partition from now on, if this is its
// first election, and changes its resourceVersion accordingly. They are more than half of such an
// object, and a third of what each write of one costs; when a broker goes, its partitions wait for
// hundreds of writes. Nobody applies Partitions, so nobody needs to know (docs/adr/0214).
// Kubernetes documents how: Server-Side Apply, "Clearing managedFields".
func untrack(ctx context.Context, c client.Client, partition *v1alpha1.Partition) error {
	if len(partition.ManagedFields) == 0 || partition.Status.LeaderEpoch != 0 {
		return nil
	}
	untracked := &v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Namespace: partition.Namespace,
		Name: partition.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"managedFields":[{}]}}`,
		partition.ResourceVersion)
	if err := c.Patch(ctx, untracked, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("clear the partition's managed fields: %w", err)
	}
	partition.ResourceVersion, partition.ManagedFields = untracked.ResourceVersion, nil
	return nil
}

// markTracked drops a Partition's managed fields before the cache keeps it, but for a mark that
// there are some. Where somebody applied on the server's side, they stay on the server, and are not
// marked.
func markTracked(object any) (any, error) {
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
