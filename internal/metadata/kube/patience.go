package kube

import (
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// askAgain is how long a request of a watch waits before it tries again to connect to an API server
// that is away.
const askAgain = 500 * time.Millisecond

// WatchClient returns an HTTP client for caches. Its requests wait for an API server that cannot be
// connected to, until their context ends.
//
// Watches whose requests fail begin again later and later, after up to a minute, each for itself:
// after an outage of 45 s brokers renewed their Leases within two seconds of its end, and did not
// know who led for 70 s more.
func WatchClient(config *rest.Config) (*http.Client, error) {
	patient := rest.CopyConfig(config)
	patient.Wrap(func(next http.RoundTripper) http.RoundTripper { return patience{next} })
	return rest.HTTPClientFor(patient)
}

// patience repeats requests that did not reach the API server; these have changed nothing. Whatever
// an API server answers is passed on.
type patience struct{ next http.RoundTripper }

func (p patience) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := p.next.RoundTrip(request)
		var failed *net.OpError
		if err == nil || request.Body != nil || !errors.As(err, &failed) || failed.Op != "dial" {
			return response, err
		}
		select {
		case <-time.After(askAgain):
		case <-request.Context().Done():
			return nil, err
		}
	}
}
