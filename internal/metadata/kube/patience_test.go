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

// network fails as often as it is told to, and then answers.
type network struct {
	failures int
	with     error
	asked    int
}

func (n *network) RoundTrip(*http.Request) (*http.Response, error) {
	n.asked++
	if n.asked <= n.failures {
		return nil, n.with
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

func TestRequestsOfWatchesWaitForTheAPIServer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		network  network
		body     string
		deadline time.Duration
		asked    int
		fails    bool
	}{
		"away for a while": {network{failures: 100, with: refused}, "", time.Hour, 101,
			false},
		"an answer is passed on": {network{}, "", time.Hour, 1, false},
		"nobody waits any more": {network{failures: 100, with: refused}, "",
			3 * askAgain / 2, 2, true},
		"it was reached, and broke": {network{failures: 1,
			with: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, "", time.Hour, 1, true},
		"a request that says anything": {network{failures: 1, with: refused}, "{}", time.Hour, 1,
			true},
		"no word of the network": {network{failures: 1,
			with: errors.New("a certificate has expired")}, "", time.Hour, 1, true},
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
				response, err := patience{&test.network}.RoundTrip(request)
				if (err != nil) != test.fails || test.network.asked != test.asked {
					t.Errorf("asked %d times, %v", test.network.asked, err)
				}
				if response != nil {
					_ = response.Body.Close()
				}
			})
		})
	}
}

func TestAWatchClientIsMadeWithoutTheAPIServer(t *testing.T) {
	if _, err := WatchClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
}
