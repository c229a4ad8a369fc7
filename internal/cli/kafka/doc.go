// Package kafka is the Kafka client of kubectl heartwood: it reads and writes records, and shows
// and resets consumer groups, of a LogCluster to which no route exists. Every connection to an
// advertised address goes to the pod of the broker that advertises it (routes).
//
// The addresses of listeners of type Internal are known beforehand. Those of other listeners come
// from a metadata request to one of the pods, which is repeated when a client asks for an address
// that is not known, such as that of a broker that has just started.
package kafka
