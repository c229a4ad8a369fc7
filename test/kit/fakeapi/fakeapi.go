// Package fakeapi creates fake API servers for unit tests of controllers, with the types of
// Kubernetes and Heartwood. Tests that need features which a fake does not have, such as validation
// and garbage collection, use test/kit/envtest.
package fakeapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Scheme returns a scheme with the types of Kubernetes and Heartwood.
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

// Builder returns a builder for a client whose fake API server stores the given objects.
func Builder(t testing.TB, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(Scheme(t)).WithObjects(objects...)
}
