// Package remote is the client of the brokers' HTTP port for the commands `heartwood clean`,
// `heartwood topics`, `heartwood partitions`, `heartwood transactions` and `heartwood get`, and for
// the console, which asks all brokers at once (Fleet).
//
// Each broker that holds a replica of the topic serves a clean request for its own replica. The
// user passes the address of at least one broker. That broker names the other brokers, and the
// client sends the request to them at the same port. If their names do not resolve, as outside the
// Kubernetes cluster, the user passes further addresses. Alternatively the user sets the annotation
// heartwood.dev/clean-now, which reaches all brokers through the API server.
package remote
