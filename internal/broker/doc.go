// Package broker assembles a broker: log store, cleaner, replicas, group coordinator, request
// handler and listener, and the metadata that they follow.
//
//   - Broker (broker.go) opens, runs and stops these components.
//   - follow.go applies metadata images; serving.go reports to the metadata store which partitions
//     this broker serves.
//   - ProducerIDs (producer_ids.go) allocates producer ids that are unique in the cluster.
//   - HTTPOf (brokers.go) connects the brokers of one process to the HTTP port
//     (internal/broker/httpport).
//
// Invariants:
//
//   - No request is accepted before the first metadata image was applied. Otherwise a client would
//     get an error that an existing topic does not exist.
//   - Requests use a metadata image only after it was applied. By then this broker is ready to lead
//     the partitions that it leads in that image.
//   - The store is closed last, after everything that could append to it has stopped. Only then is
//     the shutdown marked as clean.
//
// Run starts goroutines for the metadata store, follow, reportServing, cleanNow, the wire server,
// and the watches of the volume, hanging transactions and consumer group lag. All of them have
// ended when Run returns.
package broker
