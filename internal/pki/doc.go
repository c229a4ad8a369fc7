// Package pki issues a LogCluster's certificates: for its listeners, its LogUsers and the
// connections between brokers. It is pure: the caller passes the time, and stores the result in
// Secrets or files. It uses crypto/x509 for signatures and encodings. Keys are ECDSA P-256.
//
//   - Authority (authority.go) is a CA that is replaced over time. It contains the issuing CA, the
//     next CA while it is being published, and retired CAs whose leaves may still be in use.
//   - lost.go continues with the published certificates of a CA whose private key was lost.
//   - Leaf (leaf.go) is a certificate with its key. leaf.go also decides when it must be renewed.
//   - encoding.go converts authorities to and from a Secret's data; names.go computes the names in
//     a listener's certificate.
//
// Invariants, which the model test checks:
//
//   - A leaf is valid under every bundle that was current at a time Overlap ago or later, since the
//     leaf's CA was published. Exceptions are leaves of the first CA and of a CA that replaces an
//     expired CA, and leaves that could not wait while a CA's key was lost.
//   - The bundle contains the CA of every leaf that has not expired.
//   - A leaf does not outlive its CA.
package pki
