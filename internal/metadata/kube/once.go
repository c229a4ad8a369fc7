package kube

import "net/http"

// onceOnly keeps the client from sending a change again by itself, as it does when a server that
// failed says when to come back. Such a change may have been made: sent again it meets itself, and
// is told as a conflict, which is the word for a change that was not made. 429 is let be: what was
// never let in was not made.
type onceOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onceOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err == nil && response.StatusCode >= http.StatusInternalServerError &&
		request.Method != http.MethodGet {
		response.Header.Del("Retry-After")
	}
	return response, err
}
