// Package broker assembles a broker: log store, cleaner, replicas, group coordinator, request
// handler and listener, and the metadata that they follow.
//
//   - Broker (broker.go) opens, runs and stops these components.
//   - follow.go applies metadata images; serving.go reports to the cluster which partitions are
//     served.
//   - ProducerIDs (producer_ids.go) allocates producer ids that are unique in the cluster.
//   - HTTPOf (brokers.go) returns what internal/broker/httpport serves of the brokers of one
//     process.
//
// Invariants:
//
//   - No request is accepted before the first image was applied. Otherwise a client would receive
//     the error that an existing topic does not exist.
//   - Requests use an image only after it was applied. By then this broker is ready to lead the
//     partitions that it leads in the image.
//   - The store is closed last, after everything that could append to it has stopped. Only then is
//     the shutdown marked as clean.
//
// Run starts goroutines for the metadata store, follow, reportServing, cleanNow, the watches of
// volumes, of hanging transactions and of the lag of groups, and the wire server. All of them have
// ended when Run returns.
package broker
