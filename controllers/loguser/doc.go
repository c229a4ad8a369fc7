// Package loguser reconciles LogUsers. Reconciler (reconciler.go) creates a LogUser's credentials
// and writes them into the LogUser's Secret, with client configuration files (endpoint.go).
// ScramReconciler (scram.go) writes the verifiers of a LogCluster's LogUsers into the Secrets that
// brokers read.
//
// Invariants:
//
//   - The password of a LogUser is stored only in its Secret. Brokers cannot read it.
//   - A Secret that was not made for this LogUser is never written (ReasonSecretNameTaken), and a
//     LogUser that is created again does not inherit the Secret of the previous one.
//   - A credential that the LogUser's type does not have is removed: with another type, the old
//     credentials end.
//   - No error, event, condition or log message contains a password.
package loguser
