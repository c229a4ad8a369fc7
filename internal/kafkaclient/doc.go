// Package kafkaclient is what the clients of the Kafka protocol in kubectl heartwood and in the web
// console share. Both authenticate as a person or a LogUser, and the authorization of the listeners
// applies.
//
//   - routes.go: connections to a LogCluster to which no route exists.
//   - groups.go: descriptions of groups of the consumer protocol. The lag is not shared: kubectl
//     heartwood shows that of kadm, as Kafka's tools do, and the console the offsets from the
//     committed one, or the start of the log if that is higher, to the last stable offset.
//   - offsets.go: starts and ends of logs, and positions within them.
//   - fetch.go: records of one partition from an offset on.
//
// Every connection to an advertised address goes to the pod of the broker that advertises it
// (routes.go). The addresses of listeners of type Internal are known beforehand. Those of other
// listeners come from a metadata request to one of the pods, which is repeated when a client asks
// for an address that is not known, such as that of a broker that has just started.
package kafkaclient
