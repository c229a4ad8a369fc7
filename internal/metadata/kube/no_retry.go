package kube

import "net/http"

// noRetry prevents the client from repeating a write after a server error. client-go itself repeats
// a request if the error response has a Retry-After header, although the write may have been made.
// The repeated write would then conflict with the first one, and callers regard a conflict as proof
// that their write was not made. noRetry does not change responses with status 429, because such a
// request was not executed.
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
