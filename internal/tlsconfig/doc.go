// Package tlsconfig creates every TLS configuration for Heartwood's servers and clients. No other
// package contains a composite literal of tls.Config, so the minimum version, TLS 1.2, applies to
// all of them; internal/lint checks this. The package is pure.
package tlsconfig
