// Package remote is the client of the brokers' HTTP port for the commands `heartwood clean` and
// `heartwood topics`.
//
// A clean request is served by each broker that holds a replica of the topic. One address is enough
// to start with: the broker there names the others, and the request is sent to them at the same
// port. If their names do not resolve, as outside the Kubernetes cluster, the user passes further
// addresses, or sets the annotation heartwood.dev/clean-now, which reaches all brokers through the
// API server.
package remote
