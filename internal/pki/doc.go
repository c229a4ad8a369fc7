// Package pki issues the certificates of a LogCluster: those of its listeners, of its LogUsers and
// of the connections between brokers. It is pure: the caller passes the time, and stores the result
// in Secrets or files. Signatures and encodings are those of crypto/x509; keys are ECDSA P-256.
//
//   - Authority (authority.go) is a CA over time: the certificate that issues, the next one while
//     it is being published, and retired ones whose leaves may still be in use.
//   - lost.go continues with the published certificates of a CA whose private key was lost.
//   - Leaf (leaf.go) is a certificate with its key, and the decision when it must be renewed.
//   - encoding.go converts authorities from and to the keys of a Secret; names.go computes the
//     names of a listener's certificate.
//
// Invariants, which the model test checks:
//
//   - A leaf is valid under every bundle that was published at least Overlap ago and since the CA
//     of the leaf was published. Exceptions are the first CA, one that replaces an expired CA, and
//     leaves that could not wait while the key of a CA was lost.
//   - The bundle contains the CA of every leaf that has not expired.
//   - A leaf does not outlive its CA.
package pki
