package topic

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// TestFailedReconciliationsHaveALastSuccess checks that a Topic's series exists even if each
// reconciliation has failed since the operator started. The series is removed when the Topic does
// not exist.
func TestFailedReconciliationsHaveALastSuccess(t *testing.T) {
	fails := errors.New("forbidden")
	c := fakeapi.Builder(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
			object client.Object, options ...client.GetOption) error {
			if fails != nil {
				return fails
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	registry := prometheus.NewRegistry()
	lastSuccess, err := opmetrics.NewLastSuccess(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: c, LastSuccess: lastSuccess}
	for _, want := range []int{1, 0} {
		_, err := r.Reconcile(t.Context(), ctrl.Request{
			NamespacedName: types.NamespacedName{Namespace: "n", Name: "orders"}})
		if !errors.Is(err, fails) {
			t.Fatalf("got %v, want %v", err, fails)
		}
		if n, err := testutil.GatherAndCount(registry); err != nil || n != want {
			t.Errorf("%d series, %v, want %d", n, err, want)
		}
		fails = nil
	}
}
