// Package kafkaclient contains the code that the Kafka clients in kubectl heartwood and in the web
// console share. Both authenticate as a person or a LogUser, and the listeners' authorization
// applies.
//
//   - routes.go: connections to a LogCluster to which there is no network route.
//   - groups.go: descriptions of consumer protocol groups. The lag is not shared. kubectl heartwood
//     shows kadm's lag, as Kafka's tools do. The console counts the offsets from the committed
//     offset, or from the start of the log if that is higher, to the last stable offset.
//   - offsets.go: start and end offsets of logs, and positions within them.
//   - fetch.go: records of one partition from an offset on.
//
// Every connection to an advertised address goes to the pod of the broker that advertises it
// (routes.go). The addresses of listeners of type Internal are known in advance. The addresses of
// other listeners come from a metadata request to one of the pods. The request is repeated when a
// client uses an unknown address, for example of a broker that has just started.
package kafkaclient
