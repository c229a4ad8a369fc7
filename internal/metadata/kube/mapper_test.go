package kube

import (
	"testing"

	"k8s.io/client-go/rest"
)

// A broker may start while the API server is away: it must wait for it, and not end.
func TestAStoreIsMadeWithoutTheAPIServer(t *testing.T) {
	if _, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "logs",
		Cluster: "demo"}); err != nil {
		t.Fatal(err)
	}
}
