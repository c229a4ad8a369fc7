// Package remote lets a broker use the metadata store of another process of the same machine:
// `heartwood dev --processes` keeps the store, and each broker is a child that has one end of a
// socket pair (docs/adr/0135).
//
//   - wire.go: frames of JSON, their limits, and errors that keep their kind.
//   - client.go: Client, the broker's end; it is a metadata.Store, Admin and ShutdownAnnouncer, with the
//     semantics of those.
//   - serve.go: Serve, the store's end of one broker.
//
// The connection is the broker's life: when it ends, or nothing comes for sessionTimeout, the
// broker is down for the store, and the client's Run fails, so that no broker goes on as leader of
// what others may lead by now. A killed process is seen at once, as its socket closes; one that
// hangs, after sessionTimeout.
//
// Goroutines: Client.Run owns a reader and a heart; Serve owns the store's Run, a writer of images,
// and one for each request under way (at most requestsMax). Both join theirs before they return.
// Locks: writing (over one frame), waiting (a leaf).
package remote
