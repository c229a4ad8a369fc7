package dev

import (
	"encoding/json"
	"net/http"
	"strings"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console"
)

// guard refuses requests that a web page from another site may have caused, because the HTTP port
// has no authentication. These are requests for an unknown host name (DNS rebinding) and requests
// that a browser marks as cross-site. Brokers on Kubernetes have no such check, because their
// clients use many host names.
func guard(a address, hosts []string, next http.Handler) http.Handler {
	known := []string{strings.ToLower(a.host)}
	for _, host := range hosts {
		known = append(known, strings.ToLower(host))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !console.KnownHost(r.Host, known):
			refuse(w, http.StatusMisdirectedRequest, report.Failure{Reason: "Misdirected",
				Error: "heartwood dev is not served under the host name " + r.Host +
					": if this name is right, start heartwood dev with --allow-host"})
		case console.CrossSite(r):
			refuse(w, http.StatusForbidden, report.Failure{Reason: "Forbidden",
				Error: "requests from pages of other sites are rejected"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// withoutRecords refuses requests for a key's records if other machines can reach the address,
// because the HTTP port has no authentication.
func withoutRecords(a address, next http.Handler) http.Handler {
	if a.loopback() {
		return next
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("/api/v1/topics/{topic}/keys", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, report.Failure{Reason: "Forbidden",
			Error: "records are served on a loopback address only: start heartwood dev with --http " +
				"127.0.0.1:9644"})
	})
	return mux
}

func refuse(w http.ResponseWriter, status int, failure report.Failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(failure) // fails only if the client has disconnected
}
