// Package fakeapi creates fake API servers for unit tests of controllers, with the types of
// Kubernetes and of Heartwood. Tests of behaviour that a fake does not have, such as validation and
// garbage collection, use test/kit/envtest.
package fakeapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Scheme returns the types of Kubernetes and of Heartwood.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Builder returns the builder of a client whose API server stores the given objects.
func Builder(t testing.TB, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(Scheme(t)).WithObjects(objects...)
}
