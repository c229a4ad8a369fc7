package apply

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// checkUID checks the UID of a deletion as the API server does. The fake client does not check it.
func checkUID(ctx context.Context, c client.WithWatch, object client.Object,
	options ...client.DeleteOption) error {
	all := (&client.DeleteOptions{}).ApplyOptions(options)
	stored := &corev1.Service{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
		return err
	}
	if p := all.Preconditions; p != nil && p.UID != nil && *p.UID != stored.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "services"}, stored.Name, nil)
	}
	return c.Delete(ctx, object, options...)
}

// TestServiceThatWasCreatedAgainIsNotPruned checks that the Service of a removed listener is
// deleted. If another client has created a new Service with its name since it was cached, the new
// Service is kept.
func TestServiceThatWasCreatedAgainIsNotPruned(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{UID: "main"}}
	cached := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "main-lb-0",
		UID: "cached", OwnerReferences: []metav1.OwnerReference{{UID: "main",
			Controller: new(true)}}}}
	for uid, stays := range map[types.UID]bool{"cached": false, "other": true} {
		stored := cached.DeepCopy()
		stored.UID = uid
		c := fakeapi.Builder(t, stored).WithInterceptorFuncs(
			interceptor.Funcs{Delete: checkUID}).Build()
		r := &Applier{Client: c}
		if err := r.prune(t.Context(), &facts.Facts{Cluster: cluster}, cached.DeepCopy(),
			nil); err != nil {
			t.Fatal(err)
		}
		err := c.Get(t.Context(), client.ObjectKeyFromObject(cached), &corev1.Service{})
		if client.IgnoreNotFound(err) != nil || (err == nil) != stays {
			t.Errorf("Service with UID %s: %v, want that it stays: %t", uid, err, stays)
		}
	}
}
