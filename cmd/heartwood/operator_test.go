package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/tlsscan"
)

// TestAuthorizedMetricsAcceptModernTLSOnly scans the operator's metrics port.
func TestAuthorizedMetricsAcceptModernTLSOnly(t *testing.T) {
	f := operatorFlags{metrics: "127.0.0.1:0", authorizeMetrics: true}
	server, err := metricsserver.NewServer(f.metricsOptions(),
		&rest.Config{Host: "https://127.0.0.1:1"}, &http.Client{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	bound, _ := server.(interface{ GetBindAddr() string })
	await.Until(t, "the server listens", func() bool { return bound.GetBindAddr() != "" })
	tlsscan.Scan(t, &tlsscan.Server{Address: bound.GetBindAddr(),
		Config: &tls.Config{InsecureSkipVerify: true}}) // the server creates its own certificate
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOperatorWatchesTheNamespacesOfOLM checks the values of flag --namespaces that a pod gets from
// the Operator Lifecycle Manager, where "" means all namespaces.
func TestOperatorWatchesTheNamespacesOfOLM(t *testing.T) {
	for value, want := range map[string][]string{"": {}, "one": {"one"}, "one,two": {"one", "two"}} {
		command := operatorCommand()
		if err := command.ParseFlags([]string{"--namespaces=" + value}); err != nil {
			t.Fatal(err)
		}
		got, err := command.Flags().GetStringSlice("namespaces")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("--namespaces=%s: %q, %v; want %q", value, got, err, want)
		}
	}
}
