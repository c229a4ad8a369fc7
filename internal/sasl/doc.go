// Package sasl contains the server side of the SASL mechanisms by which Kafka clients authenticate:
// SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84) and OAUTHBEARER (RFC 7628, KIP-255). PLAIN and
// GSSAPI are not offered.
//
// The package is pure: verifiers, keys and the time come in as arguments. Package wire sends and
// receives the messages. The cryptographic protocols are those of the libraries xdg-go/scram and
// go-jose (ADR 0232).
//
// Invariants:
//   - A client that fails learns only that its credentials are invalid. An unknown user gets a salt
//     that looks like that of a known one and is the same on every broker, and costs the same work
//     (fakeVerifier).
//   - The authorization id of a client must be empty or its own name (CVE-2017-12610).
//   - Only the signature algorithms of tokenAlgorithms are accepted, only keys of the configured
//     issuer verify, and a URL in a token is never used (CVE-2025-27817). Issuer, audience and
//     expiry are required (CVE-2026-33557).
//   - No error and no log message contains a password, a proof or a token.
package sasl
