package v1alpha1

import "errors"

// Secured reports whether brokers need certificates. They do if a listener has TLS or
// authentication, requests are authorized, metrics need a token, or brokers authenticate each
// other. The HTTP port then has TLS.
func (s *LogClusterSpec) Secured() bool {
	for i := range s.Listeners {
		if s.Listeners[i].TLS != nil || len(s.Listeners[i].Authentication) > 0 {
			return true
		}
	}
	return s.Peers == PeersMutualTLS || s.MetricsAuthorized() ||
		s.Authorization != nil && s.Authorization.Type == AuthorizationSimple
}

// ValidatePeers returns an error if a secured LogCluster has plain connections between brokers. Any
// client that reaches a broker could then read all records by acting as a follower. If the field is
// not set, a secured LogCluster uses MutualTLS.
func (s *LogClusterSpec) ValidatePeers() error {
	if s.Secured() && s.Peers == PeersPlain {
		return errors.New("peers must be MutualTLS with tls, authentication, authorization or " +
			"http.metrics Authorized: remove it, or a client could read all records as a follower")
	}
	return nil
}

// MetricsAuthorized reports whether clients need a token to read the metrics.
func (s *LogClusterSpec) MetricsAuthorized() bool {
	return s.HTTP != nil && s.HTTP.Metrics == HTTPMetricsAuthorized
}
