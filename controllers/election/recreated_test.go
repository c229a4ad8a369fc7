package election

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// newReconciler returns a reconciler, and a fake API server with the given objects.
func newReconciler(t *testing.T, funcs interceptor.Funcs,
	objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	c := fakeapi.Builder(t, objects...).WithGlobalResourceVersionCounter().
		WithStatusSubresource(&v1alpha1.PartitionSet{}).
		WithIndex(&v1alpha1.PartitionSet{}, index.ByCluster, func(o client.Object) []string {
			return []string{o.(*v1alpha1.PartitionSet).Spec.Cluster}
		}).WithInterceptorFuncs(funcs).Build()
	return &Reconciler{Client: c, Brokers: brokerstate.NewTracker(c, c), Sets: sets.NewReader(c),
		Writer: sets.NewWriter(c, c)}, c
}

// recreated returns a set that was deleted and created again with its last status.
func recreated(t *testing.T, uid string) *v1alpha1.PartitionSet {
	t.Helper()
	set := &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "main-0",
		UID: types.UID(uid)}, Spec: v1alpha1.PartitionSetSpec{Cluster: "main", Count: 16,
		Assignments: map[string]string{"orders/0": "0,1,2 tag"}}}
	if err := partitionset.Remember(set, v1alpha1.PartitionSetStatus{
		Partitions: map[string]string{"orders/0": "-@7 2:5 i 4"}}); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestLastStatusOfALaterSetIsKept checks that the annotation of a recreated set is not removed
// before its status is written. Here the set is deleted and created again while the operator
// removes the annotation of the earlier set, whose status was written. Only the new set's
// annotation contains the status of the new set.
func TestLastStatusOfALaterSetIsKept(t *testing.T) {
	deleted := false
	r, c := newReconciler(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch,
		object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if !deleted {
			deleted = true
			if err := errors.Join(c.Delete(ctx, recreated(t, "first")),
				c.Create(ctx, recreated(t, "second"))); err != nil {
				t.Fatal(err)
			}
		}
		return c.Patch(ctx, object, patch, options...)
	}}, recreated(t, "first"))
	set := &v1alpha1.PartitionSet{}
	reconcile := func() {
		t.Helper()
		key := client.ObjectKeyFromObject(recreated(t, ""))
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), key, set); err != nil {
			t.Fatal(err)
		}
	}
	reconcile() // writes the status
	if set.UID != "first" || len(set.Status.Partitions) != 1 {
		t.Fatalf("got %+v, want the status written", set)
	}
	want := set.Status.Partitions["orders/0"]
	reconcile() // removes the annotation
	if text := set.Annotations[v1alpha1.AnnotationRemembered]; set.UID != "second" || text == "" {
		t.Fatalf("got uid %s and annotation %q, want the later set with its last status", set.UID, text)
	}
	reconcile()
	reconcile()
	if got := set.Status.Partitions["orders/0"]; got != want || len(set.Annotations) > 0 {
		t.Errorf("got %q and annotations %v, want %q without annotations", got, set.Annotations, want)
	}
}
