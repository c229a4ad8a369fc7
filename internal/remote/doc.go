// Package remote is the client for brokers' HTTP ports. The commands `heartwood clean`, `heartwood
// topics`, `heartwood partitions`, `heartwood transactions` and `heartwood get` use it, and the
// console, which sends requests to all brokers at once (Fleet).
//
// For a clean request, each broker with a replica of the topic cleans its own replica. The user
// specifies the address of at least one broker. That broker's response names the other brokers, and
// the client sends the request to them at the same port. If their names do not resolve, as outside
// the Kubernetes cluster, the user must specify more addresses. Alternatively the user sets the
// annotation heartwood.dev/clean-now, which reaches all brokers through the API server.
package remote
