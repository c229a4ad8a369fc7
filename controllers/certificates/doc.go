// Package certificates issues the certificates of LogClusters and stores them in Secrets: the CAs,
// which only the operator reads, and <cluster>-brokers-tls, which brokers read.
//
//   - reconciler.go: the controller.
//   - authorities.go advances the CAs (package pki) and publishes their certificates.
//   - lost.go finds the published certificates of CAs that were lost.
//   - leaves.go issues the certificates of listeners and brokers.
//   - provided.go reads the listener certificates that users or cert-manager provide.
//
// Invariants:
//
//   - A CA that cannot be read or decoded is never replaced, and the others advance.
//   - A CA whose Secret was deleted or replaced stays in the bundles, and its certificates in use,
//     for as long as a published copy of its certificate exists.
//   - If a certificate cannot be renewed or is invalid, brokers keep the one in use, and condition
//     CertificatesReady says what to do.
//   - A CA is made when the first certificate needs it. LogClusters without TLS have no Secrets.
package certificates
