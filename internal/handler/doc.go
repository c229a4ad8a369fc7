// Package handler answers Kafka requests: it decodes a body, checks it, calls internal/replica or
// internal/metadata, and encodes what came back. One file for each API, named by its key; table.go
// is the list of APIs and versions, and so the answer to ApiVersions; errors.go is the only place
// that knows Kafka's error codes.
//
// Invariants:
//   - What table.go says is served at every version of its range; what it does not say closes the
//     connection.
//   - A body is bytes from outside: any of them gives an answer or an error, never a panic, and
//     memory within bounds (decode.go).
//   - What a request sees of the cluster is one image: each handler takes it once.
//
// A Handler has no goroutine and no lock; it is used from all connections at once.
package handler
