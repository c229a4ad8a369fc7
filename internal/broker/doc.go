// Package broker assembles a broker: store, cleaner, partitions, handler and listener, and the
// metadata that they follow.
//
//   - Broker (broker.go) opens, runs and stops them.
//   - follow.go applies metadata images; serving.go reports to the cluster which partitions are
//     served.
//   - ProducerIDs (producer_ids.go) allocates producer ids that are unique in the cluster.
//   - NewHTTP (http.go) serves metrics, health and reports of the brokers of one process.
//
// Invariants:
//   - No request is accepted before the first image was applied: a client never sees an existing
//     topic missing.
//   - Requests see an image only after it was applied: this broker then leads the partitions that
//     it leads in the image.
//   - The store is closed last, after everything that could append to it has stopped; only then is
//     the shutdown marked clean.
//
// Goroutines of Run: the metadata store, follow, reportServing, cleanNow, and the wire server. All
// are joined before Run returns.
package broker
