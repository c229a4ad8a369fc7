// Package handler answers Kafka requests: it decodes a body, checks it, calls internal/replica,
// internal/coordinator or internal/metadata, and encodes the response. There is one file for each
// API, named by its key. Three files apply to all APIs: table.go lists the APIs with their versions
// and required operations, authorize.go calls the authorizer, and errors.go maps errors to Kafka's
// error codes.
//
// Invariants:
//   - Every version in the ranges of table.go is served. A request with another key or version
//     closes the connection.
//   - A body is untrusted. Whatever its bytes, the result is a response or an error, never a panic,
//     and the memory for decoding is limited (shape.go).
//   - A handler loads the metadata image once per request, so that a response is consistent.
//
// A Handler has no goroutines and no locks. All connections use it concurrently.
package handler
