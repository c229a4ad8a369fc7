// Package sasl contains the server side of the SASL mechanisms with which Kafka clients
// authenticate: SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84) and OAUTHBEARER (RFC 7628,
// KIP-255). PLAIN and GSSAPI are not offered.
//
// The package is pure: verifiers, keys and the time are arguments. Package wire sends and receives
// the messages. The libraries xdg-go/scram and go-jose implement the cryptographic protocols (ADR
// 0232).
//
// Invariants:
//   - A client that fails learns only that its credentials are invalid. An unknown user gets a salt
//     that looks like a known user's salt and is the same on every broker. Handling it takes the
//     same work (fakeVerifier).
//   - A client's authorization id must be empty or its own name (CVE-2017-12610).
//   - Only the signature algorithms in tokenAlgorithms are accepted, only the configured issuer's
//     keys verify signatures, and a URL in a token is never used (CVE-2025-27817). Issuer, audience
//     and expiry are required (CVE-2026-33557).
//   - No error and no log message contains a password, a proof or a token.
package sasl
