package logcluster

import (
	"heartwood.dev/heartwood/controllers/logcluster/apply"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
	"heartwood.dev/heartwood/controllers/logcluster/replace"
	"heartwood.dev/heartwood/test/kit/fakeapi"

	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/opmetrics"
)

// TestFailedReconciliationsHaveALastSuccess checks that the series of a LogCluster exists even if
// each reconciliation has failed since the operator started. The alert HeartwoodReconcileFailing
// depends on this series.
func TestFailedReconciliationsHaveALastSuccess(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "main"}}
	forbidden := errors.New("forbidden")
	fails := func(client.Object) bool { return true }
	c := fakeapi.Builder(t, cluster).WithInterceptorFuncs(
		interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				object client.Object, options ...client.GetOption) error {
				if fails(object) {
					return forbidden
				}
				return c.Get(ctx, key, object, options...)
			},
			List: func(context.Context, client.WithWatch, client.ObjectList,
				...client.ListOption) error {
				return forbidden
			},
		}).Build()
	registry := prometheus.NewRegistry()
	lastSuccess, err := opmetrics.NewLastSuccess(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: c, Facts: facts.Gatherer{Reader: c},
		Apply:   apply.Applier{Client: c, Live: c},
		Replace: &replace.Replacer{Client: c, Live: c}, LastSuccess: lastSuccess,
		Outcomes: &outcome.Outcomes{}}
	expect := func(state string, want int) {
		t.Helper()
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)}
		if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, forbidden) {
			t.Fatalf("%s: got %v, want an error", state, err)
		}
		if n, err := testutil.GatherAndCount(registry); err != nil || n != want {
			t.Errorf("%s: %d series, %v, want %d", state, n, err, want)
		}
	}
	expect("no object can be read", 1)
	fails = func(object client.Object) bool {
		_, isCluster := object.(*v1alpha1.LogCluster)
		return !isCluster
	}
	expect("only the LogCluster can be read", 1)
	if err := c.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	expect("the LogCluster was deleted", 0)
}
