// Package broker puts a broker together: store, cleaner, partitions, handler and listener, and the
// metadata they follow.
//
//   - Broker (broker.go) opens, runs and stops them, in this order and the reverse.
//   - follow.go makes the broker what the newest metadata image says; serving.go tells the cluster
//     what it serves since.
//   - ProducerIDs (producer_ids.go) gives out producer ids that no other broker gives out.
//   - NewHTTP (http.go) serves metrics, health and reports of one broker or of several in one
//     process.
//
// Invariants:
//   - No request is taken before the first image was applied: a client never sees a cluster without
//     topics that has some.
//   - The image that requests see was applied before: what it says this broker leads, it leads.
//   - The store is closed last, after everything that could append to it has stopped; only then is
//     the shutdown marked clean.
//
// Goroutines of Run: the metadata store's, one that follows it, one that tells it what is served,
// one that cleans on demand, and the wire server's; all are joined before Run returns.
package broker
