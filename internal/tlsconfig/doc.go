// Package tlsconfig creates every TLS configuration of the servers and clients of Heartwood. No
// other package has a literal of tls.Config, so that the lowest version, TLS 1.2, holds for each of
// them; internal/lint checks this. The package is pure.
package tlsconfig
