package controllers

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// TestManagerIsCreatedWithoutTheAPIServer checks that a manager can be created while no API server
// listens. An operator that starts in this situation must wait instead of exiting.
func TestManagerIsCreatedWithoutTheAPIServer(t *testing.T) {
	_, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme: newScheme(t), MapperProvider: Mapper,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: CacheByObject()},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMapperKnowsAllRenderedKinds(t *testing.T) {
	mapper, err := Mapper(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	scheme := newScheme(t)
	cluster := &v1alpha1.LogCluster{}
	cluster.Name, cluster.Namespace = "demo", "logs"
	for _, object := range render.Cluster(cluster,
		render.Settings{Image: "registry.example/heartwood:test"}) {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
