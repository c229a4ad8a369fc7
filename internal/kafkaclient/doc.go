// Package kafkaclient is what the clients of the Kafka protocol in kubectl heartwood and in the web
// console share: connections to a LogCluster to which no route exists.
//
// Every connection to an advertised address goes to the pod of the broker that advertises it
// (routes). The addresses of listeners of type Internal are known beforehand. Those of other
// listeners come from a metadata request to one of the pods, which is repeated when a client asks
// for an address that is not known, such as that of a broker that has just started.
package kafkaclient
