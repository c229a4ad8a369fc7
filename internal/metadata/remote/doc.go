// Package remote gives a broker access to the metadata store of another process on the same
// machine: `heartwood dev --processes` owns the store, and each broker is a child process with one
// end of a socket pair (ADR 0135).
//
//   - wire.go: frames of JSON, their limits, and errors that keep their kind.
//   - client.go: Client, the broker's end, which implements metadata.Store and the other interfaces
//     of a store with their semantics.
//   - serve.go: Serve, the store's end of one broker.
//
// The connection is the broker's lease: when it is closed, or nothing arrives for sessionTimeout,
// the broker is down for the store, and Run of the client fails, so that no broker continues to
// lead partitions that other brokers may lead by now. A killed process is detected at once, because
// its socket closes; a hung process is detected after sessionTimeout.
//
// Goroutines: Client.Run owns one that reads and one that sends heartbeats; Serve owns the store's
// Run, one that writes images, and one for each request in progress (at most requestsMax).
// Client.Run and Serve join their goroutines before they return. Locks: writing (held while a frame
// is written) and waiting (a leaf).
package remote
