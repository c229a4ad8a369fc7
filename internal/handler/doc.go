// Package handler answers Kafka requests: it decodes a body, checks it, calls internal/replica,
// internal/coordinator or internal/metadata, and encodes the response. There is one file for each
// API, named by its key. table.go lists the APIs and their versions, and so the response to
// ApiVersions; authorize.go asks the authorizer about
// the operations that the table requires; errors.go alone maps errors
// to Kafka's codes.
//
// Invariants:
//   - Every version of a range in table.go is served; other keys and versions close the connection.
//   - A body is untrusted: any bytes lead to a response or an error, never to a panic, and memory
//     stays bounded (shape.go).
//   - A request uses one metadata image: each handler loads it once.
//
// A Handler has no goroutine and no lock; all connections use it concurrently.
package handler
