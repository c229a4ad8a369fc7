// Package loguser reconciles LogUsers. Reconciler (reconciler.go) makes the credentials of one
// LogUser and writes them into its Secret, with configuration files of clients (endpoint.go).
// ScramReconciler (scram.go) collects the verifiers of all LogUsers of a LogCluster in the Secrets
// that brokers read.
//
// Invariants:
//
//   - The Secret of a LogUser is the only place of its password. Brokers cannot read it.
//   - A Secret that was not made for this LogUser is never written (ReasonSecretNameTaken), and a
//     LogUser that is created again does not inherit the Secret of the previous one.
//   - A credential that the LogUser's type does not have is removed: with another type, the old
//     credentials end.
//   - No error, event, condition or log message contains a password.
package loguser
