package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// untrackEvery is how long after one Partition the next is untracked. There is no hurry, and each is news to every broker.
const untrackEvery = 50 * time.Millisecond

// noManagedFields has the API server forget which manager wrote which field, and track nothing of the object from then on.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
var noManagedFields = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))

// untrackReconciler has the API server keep no managed fields of Partitions. They are more than half of such an object, and a third of what
// each write of one costs; when a broker goes, its partitions wait for hundreds of writes. Nobody applies Partitions, so nobody
// needs to know (docs/adr/0214).
type untrackReconciler struct {
	client.Client
}

// setup runs one worker, which sleeps between two Partitions.
func (r *untrackReconciler) setup(mgr ctrl.Manager) error {
	return newController(mgr, "untrack", 1).
		For(&v1alpha1.Partition{}).
		WithEventFilter(predicate.NewPredicateFuncs(isTracked)).
		Complete(r)
}

// Reconcile leaves a Partition alone that is not in order: others write it now, and the event of their last write brings us here again.
func (r *untrackReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	partition := &v1alpha1.Partition{}
	if err := r.Get(ctx, req.NamespacedName, partition); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	inOrder := serves(partition.Status) && len(partition.Status.ISR) == len(partition.Spec.Replicas)
	if !isTracked(partition) || !inOrder || !partition.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if err := r.Patch(ctx, partition, noManagedFields); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("clear the managed fields of partition %s: %w", req, err)
	}
	select {
	case <-time.After(untrackEvery):
	case <-ctx.Done():
	}
	return ctrl.Result{}, nil
}

// isTracked tells whether the API server keeps managed fields of an object, as markTracked has left it.
func isTracked(object client.Object) bool { return len(object.GetManagedFields()) > 0 }

// markTracked drops a Partition's managed fields before the cache keeps it, but for a mark that there are some. Where somebody applied on the
// server's side, they stay on the server, and are not marked.
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
