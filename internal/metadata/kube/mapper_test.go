package kube

import (
	"testing"

	"k8s.io/client-go/rest"
)

// TestStoreIsCreatedWithoutTheAPIServer checks that New succeeds while the API server is
// unavailable, so that a broker that starts then waits instead of exiting.
func TestStoreIsCreatedWithoutTheAPIServer(t *testing.T) {
	if _, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "logs",
		Cluster: "demo"}); err != nil {
		t.Fatal(err)
	}
}
