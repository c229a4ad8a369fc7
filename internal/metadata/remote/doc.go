// Package remote gives a broker access to the metadata store in another process on the same
// machine. `heartwood dev --processes` owns the store, and each broker is a child process with one
// end of a socket pair (ADR 0135).
//
//   - wire.go: frames of JSON, their limits, and the encoding of errors, which keeps their kind.
//   - client.go: Client, the broker's end, which implements metadata.Store and a store's other
//     interfaces.
//   - serve.go: Serve, the store's end of the connection to one broker.
//
// The connection is the broker's lease. When it is closed, or when the store receives nothing for
// sessionTimeout, the store regards the broker as down, and the client's Run fails. So no broker
// continues to lead partitions that other brokers may already lead. The store detects a killed
// process at once, because its socket closes, and a hung process after sessionTimeout.
//
// Goroutines: Client.Run starts one that reads and one that sends heartbeats. Serve starts one for
// the store's Run, one that writes images, and one for each request in progress (at most
// requestsMax). Client.Run and Serve join their goroutines before they return. Locks: writing (held
// while a frame is written) and waiting (a leaf).
package remote
