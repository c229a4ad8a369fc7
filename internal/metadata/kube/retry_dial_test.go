package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// failingTransport fails the given number of times, and then responds.
type failingTransport struct {
	failures int
	err      error
	requests int
}

func (f *failingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	f.requests++
	if f.requests <= f.failures {
		return nil, f.err
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

func TestRequestsOfWatchesWaitForTheAPIServer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		transport failingTransport
		body      string
		deadline  time.Duration
		requests  int
		fails     bool
	}{
		"API server unavailable at first": {failingTransport{failures: 100, err: refused}, "", time.Hour,
			101,
			false},
		"server error": {failingTransport{}, "", time.Hour, 1, false},
		"deadline exceeded": {failingTransport{failures: 100, err: refused}, "",
			3 * dialRetryInterval / 2, 2, true},
		"connection reset": {failingTransport{failures: 1,
			err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, "", time.Hour, 1, true},
		"request with a body": {failingTransport{failures: 1, err: refused}, "{}", time.Hour, 1,
			true},
		"not a network error": {failingTransport{failures: 1,
			err: errors.New("a certificate has expired")}, "", time.Hour, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				request := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://api/", nil)
				request.Body = nil
				if test.body != "" {
					request = httptest.NewRequestWithContext(ctx, http.MethodPost, "https://api/",
						strings.NewReader(test.body))
				}
				response, err := retryDial{&test.transport}.RoundTrip(request)
				if (err != nil) != test.fails || test.transport.requests != test.requests {
					t.Errorf("got %d requests, error %v; want %d requests, failure %t",
						test.transport.requests, err, test.requests, test.fails)
				}
				if response != nil {
					_ = response.Body.Close()
				}
			})
		})
	}
}

func TestWatchClientIsCreatedWithoutTheAPIServer(t *testing.T) {
	if _, err := WatchClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
}
