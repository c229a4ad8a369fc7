package kube

import "net/http"

// noRetry keeps the client from repeating a write after a server error. client-go repeats a request
// by itself if the error response has a Retry-After header, but the write may have been made. The
// repeated write would then conflict with itself, and a conflict means that a write was not made.
// Responses with status 429 are left alone: such a request was not executed.
type noRetry struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noRetry) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(request)
	if err == nil && response.StatusCode >= http.StatusInternalServerError &&
		request.Method != http.MethodGet {
		response.Header.Del("Retry-After")
	}
	return response, err
}
