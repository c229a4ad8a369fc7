package access

import "github.com/prometheus/client_golang/prometheus"

// Reasons for refusals.
const (
	reasonUnauthorized = "Unauthorized"
	reasonForbidden    = "Forbidden"
	reasonUnavailable  = "Unavailable"
)

func newRefused(registry prometheus.Registerer) *prometheus.CounterVec {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_http_requests_refused_total",
		Help: "Requests to the HTTP port that were refused, by reason: Unauthorized (no valid " +
			"token), Forbidden (the token's account lacks the right), Unavailable (the API server " +
			"did not decide).",
	}, []string{"reason"})
	for _, reason := range []string{reasonUnauthorized, reasonForbidden, reasonUnavailable} {
		refused.WithLabelValues(reason)
	}
	if registry != nil {
		registry.MustRegister(refused)
	}
	return refused
}
